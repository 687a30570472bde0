/* The memo of the core in C: copies by the addresses of their sources.

   In Python it behaves like a dict with ids as keys, as far as the copier needs it. A dict would
   create an int for each address, and the ints would collide: their lowest bits are zeros. */

#include <stdint.h>

typedef struct {
    uintptr_t key;
    PyObject *value; /* NULL: deleted, or written again later */
} Entry;

typedef struct {
    PyObject_HEAD
    Entry *entries;     /* in the order in which they were written */
    Py_ssize_t written; /* how many there are, including deleted ones */
    Py_ssize_t room;
    int32_t *places; /* places in `entries` by hash; -1: none */
    int bits;        /* there are 2**bits of them, at least half of them free */
} Memo;

static size_t
memo_start(Memo *memo, uintptr_t key)
{
    return (size_t)(((uint64_t)(key >> 4) * 0x9E3779B97F4A7C15u) >> (64 - memo->bits));
}

/* Returns the slot with the place of a key, or the free slot for it. */
static int32_t *
memo_place(Memo *memo, uintptr_t key)
{
    size_t mask = ((size_t)1 << memo->bits) - 1;
    size_t slot = memo_start(memo, key);
    while (memo->places[slot] >= 0 && memo->entries[memo->places[slot]].key != key) {
        slot = (slot + 1) & mask;
    }
    return &memo->places[slot];
}

/* Returns the copy of what is at an address, which the memo owns, or NULL. Never an error. */
static PyObject *
memo_find(Memo *memo, const void *key)
{
    int32_t place = *memo_place(memo, (uintptr_t)key);
    return place < 0 ? NULL : memo->entries[place].value;
}

static int
memo_resize(Memo *memo, int bits)
{
    size_t size = (size_t)1 << bits;
    Py_ssize_t room = (Py_ssize_t)(size / 2);
    if (bits > 30) {
        PyErr_NoMemory();
        return -1;
    }
    Entry *entries = PyMem_Realloc(memo->entries, room * sizeof(Entry));
    if (entries == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    memo->entries = entries;
    int32_t *places = PyMem_Malloc(size * sizeof(int32_t));
    if (places == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    memset(places, -1, size * sizeof(int32_t));
    PyMem_Free(memo->places);
    memo->places = places;
    memo->bits = bits;
    memo->room = room;
    for (Py_ssize_t index = 0; index < memo->written; index++) {
        *memo_place(memo, entries[index].key) = (int32_t)index;
    }
    return 0;
}

static int
memo_write(Memo *memo, const void *key, PyObject *value)
{
    if (memo->written == memo->room && memo_resize(memo, memo->bits + 2) < 0) {
        return -1;
    }
    int32_t *place = memo_place(memo, (uintptr_t)key);
    PyObject *old = *place < 0 ? NULL : memo->entries[*place].value;
    if (old == value) {
        return 0;
    }
    if (old != NULL) {
        memo->entries[*place].value = NULL;
    }
    Py_INCREF(value);
    *place = (int32_t)memo->written;
    memo->entries[memo->written++] = (Entry){(uintptr_t)key, value};
    Py_XDECREF(old);
    return 0;
}

/* --- as Python sees it -------------------------------------------------------------- */

static int
memo_key(PyObject *number, void **key)
{
    *key = PyLong_AsVoidPtr(number);
    return *key == NULL && PyErr_Occurred() ? -1 : 0;
}

static PyObject *
memo_new(PyTypeObject *kind, PyObject *args, PyObject *kwargs)
{
    Memo *memo = (Memo *)kind->tp_alloc(kind, 0);
    if (memo != NULL && memo_resize(memo, 6) < 0) {
        Py_CLEAR(memo);
    }
    return (PyObject *)memo;
}

static int
memo_traverse(Memo *memo, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(memo));
    for (Py_ssize_t index = 0; index < memo->written; index++) {
        Py_VISIT(memo->entries[index].value);
    }
    return 0;
}

static int
memo_clear(Memo *memo)
{
    for (Py_ssize_t index = 0; index < memo->written; index++) {
        Py_CLEAR(memo->entries[index].value);
    }
    return 0;
}

static void
memo_dealloc(Memo *memo)
{
    PyTypeObject *kind = Py_TYPE(memo);
    PyObject_GC_UnTrack(memo);
    memo_clear(memo);
    PyMem_Free(memo->entries);
    PyMem_Free(memo->places);
    kind->tp_free((PyObject *)memo);
    Py_DECREF(kind);
}

static PyObject *
memo_subscript(Memo *memo, PyObject *number)
{
    void *key;
    if (memo_key(number, &key) < 0) {
        return NULL;
    }
    PyObject *found = memo_find(memo, key);
    if (found == NULL) {
        PyErr_SetObject(PyExc_KeyError, number);
    }
    Py_XINCREF(found);
    return found;
}

static int
memo_ass_subscript(Memo *memo, PyObject *number, PyObject *value)
{
    void *key;
    if (memo_key(number, &key) < 0) {
        return -1;
    }
    if (value != NULL) {
        return memo_write(memo, key, value);
    }
    int32_t place = *memo_place(memo, (uintptr_t)key);
    if (place < 0 || memo->entries[place].value == NULL) {
        PyErr_SetObject(PyExc_KeyError, number);
        return -1;
    }
    Py_CLEAR(memo->entries[place].value);
    return 0;
}

static int
memo_contains(Memo *memo, PyObject *number)
{
    void *key;
    return memo_key(number, &key) < 0 ? -1 : memo_find(memo, key) != NULL;
}

static PyObject *
memo_get(Memo *memo, PyObject *const *arguments, Py_ssize_t count)
{
    void *key;
    if (count < 1 || count > 2) {
        PyErr_SetString(PyExc_TypeError, "get takes an id, and maybe what is returned instead");
        return NULL;
    }
    if (memo_key(arguments[0], &key) < 0) {
        return NULL;
    }
    PyObject *found = memo_find(memo, key);
    if (found == NULL) {
        found = count == 2 ? arguments[1] : Py_None;
    }
    Py_INCREF(found);
    return found;
}

static PyObject *
memo_setdefault(Memo *memo, PyObject *const *arguments, Py_ssize_t count)
{
    void *key;
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "setdefault takes an id and a copy");
        return NULL;
    }
    if (memo_key(arguments[0], &key) < 0) {
        return NULL;
    }
    PyObject *found = memo_find(memo, key);
    if (found == NULL) {
        found = arguments[1];
        if (memo_write(memo, key, found) < 0) {
            return NULL;
        }
    }
    Py_INCREF(found);
    return found;
}

/* Returns the entries written from a place on, as a dict. */
static PyObject *
memo_since(Memo *memo, PyObject *place)
{
    Py_ssize_t index = PyLong_AsSsize_t(place);
    PyObject *made = PyErr_Occurred() ? NULL : PyDict_New();
    for (index = index < 0 ? 0 : index; made != NULL && index < memo->written; index++) {
        if (memo->entries[index].value == NULL) {
            continue;
        }
        PyObject *value = own(memo->entries[index].value);
        PyObject *key = PyLong_FromVoidPtr((void *)memo->entries[index].key);
        if (key == NULL || PyDict_SetItem(made, key, value) < 0) {
            Py_CLEAR(made);
        }
        Py_XDECREF(key);
        Py_DECREF(value);
    }
    return made;
}

static PyObject *
memo_values(Memo *memo, PyObject *ignored)
{
    PyObject *made = PyList_New(0);
    for (Py_ssize_t index = 0; made != NULL && index < memo->written; index++) {
        PyObject *value = memo->entries[index].value;
        if (value != NULL && PyList_Append(made, value) < 0) {
            Py_CLEAR(made);
        }
    }
    return made;
}

static PyMemberDef memo_members[] = {
    {"written", Py_T_PYSSIZET, offsetof(Memo, written), Py_READONLY, NULL},
    {NULL},
};

static PyMethodDef memo_methods[] = {
    {"get", (PyCFunction)(void (*)(void))memo_get, METH_FASTCALL, NULL},
    {"setdefault", (PyCFunction)(void (*)(void))memo_setdefault, METH_FASTCALL, NULL},
    {"since", (PyCFunction)memo_since, METH_O, NULL},
    {"values", (PyCFunction)memo_values, METH_NOARGS, NULL},
    {NULL},
};

static PyType_Slot memo_slots[] = {
    {Py_tp_doc, "Copies by the ids of their sources."},
    {Py_tp_new, memo_new},
    {Py_tp_traverse, memo_traverse},
    {Py_tp_clear, memo_clear},
    {Py_tp_dealloc, memo_dealloc},
    {Py_tp_members, memo_members},
    {Py_tp_methods, memo_methods},
    {Py_mp_subscript, memo_subscript},
    {Py_mp_ass_subscript, memo_ass_subscript},
    {Py_sq_contains, memo_contains},
    {0, NULL},
};

static PyType_Spec memo_spec = {
    .name = "ramet.copying._core.Memo",
    .basicsize = sizeof(Memo),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = memo_slots,
};
