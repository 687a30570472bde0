/* The core of the copier, in C. `core.py` is the same in Python, and says what it does;
   a change to one is a change to both.

   Rules that keep this safe:
   - Code of an author's may run whenever something is copied, hashed or compared. So
     whatever is walked through is nobody else's (`fields`, a list of the items), or looked
     at anew after each step (a list by its index); and what is held meanwhile is owned.
   - What an author's code can reach is never half made: a list grows by appending.
   - Public functions of Python's C interface only. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include "_memo.h"

/* How deep things may be nested inside of each other, whatever Python's own limit is:
   each level takes some of the machine's stack. */
#define DEEPEST 1000

typedef struct {
    PyObject_HEAD
    PyObject *handlers;
    PyObject *atoms;
    Memo *memo;
    PyObject *free;
    PyObject *wrappers;
    PyObject *failed;
    int depth;
} Core;

static PyObject *blank;         /* object.__new__ */
static PyObject *no_arguments;  /* () */
static PyObject *copy_name;     /* "copy" */
static PyObject *dict_name;     /* "__dict__" */
static PyObject *bind_name;     /* "bind_function" */
static PyObject *wrapped_name;  /* "__wrapped__" */

static PyObject *
own(PyObject *object)
{
    Py_INCREF(object);
    return object;
}

/* --- what is known ------------------------------------------------------------------ */

/* Tells whether a type is one of the most common atoms. */
static int
is_common(PyTypeObject *kind)
{
    return kind == &PyUnicode_Type || kind == &PyBool_Type || kind == Py_TYPE(Py_None)
        || kind == &PyLong_Type || kind == &PyFloat_Type;
}

static int
is_atom(Core *self, PyTypeObject *kind)
{
    if (is_common(kind)) {
        return 1;
    }
    if (kind == &PyList_Type || kind == &PyDict_Type || kind == &PyTuple_Type
        || kind == &PySet_Type || kind == &PyFunction_Type) {
        return 0;
    }
    PyObject *atoms = own(self->atoms); /* A metaclass may hash in Python. */
    int found = PySet_Contains(atoms, (PyObject *)kind);
    Py_DECREF(atoms);
    return found;
}

/* Returns the copy that is known, or NULL, without an error. */
static PyObject *
recall(Core *self, PyObject *value)
{
    PyObject *found = memo_find(self->memo, value);
    Py_XINCREF(found);
    return found;
}

static PyObject *
handler_for(Core *self, PyTypeObject *kind)
{
    PyObject *handlers = own(self->handlers);
    PyObject *handler = PyDict_GetItemWithError(handlers, (PyObject *)kind);
    Py_XINCREF(handler);
    if (handler == NULL && !PyErr_Occurred()) {
        /* The table finds out what it does not know yet, if it is asked like this. */
        handler = PyObject_GetItem(handlers, (PyObject *)kind);
    }
    Py_DECREF(handlers);
    return handler;
}

static PyObject *copy_list(Core *, PyObject *);
static PyObject *copy_dict(Core *, PyObject *);
static PyObject *copy_tuple(Core *, PyObject *);
static PyObject *copy_set(Core *, PyObject *);
static PyObject *copy_function(Core *, PyObject *);

static PyObject *
copy_by_handler(Core *self, PyObject *value)
{
    PyObject *handler = handler_for(self, Py_TYPE(value));
    if (handler == NULL) {
        return NULL;
    }
    PyObject *arguments[] = {(PyObject *)self, value};
    PyObject *made = PyObject_Vectorcall(handler, arguments, 2, NULL);
    Py_DECREF(handler);
    return made;
}

static PyObject *
copy_anew(Core *self, PyObject *value)
{
    if (self->depth >= DEEPEST) {
        PyErr_Format(PyExc_RecursionError,
                     "things are nested more than %d levels deep; with RAMET_PURE_PYTHON=1 in the "
                     "environment, Python's own limit is the only one", DEEPEST);
        return NULL;
    }
    self->depth++;
    PyTypeObject *kind = Py_TYPE(value);
    /* As the table says too, but without asking it. */
    PyObject *made = kind == &PyList_Type ? copy_list(self, value)
        : kind == &PyDict_Type ? copy_dict(self, value)
        : kind == &PyTuple_Type ? copy_tuple(self, value)
        : kind == &PySet_Type ? copy_set(self, value)
        : kind == &PyFunction_Type ? copy_function(self, value)
        : copy_by_handler(self, value);
    self->depth--;
    return made;
}

/* Tells whether a function holds nothing and is known to reach nothing by name. */
static int
is_free(Core *self, PyObject *function)
{
    PyObject *attributes = ((PyFunctionObject *)function)->func_dict;
    if (PyFunction_GET_CLOSURE(function) != NULL || PyFunction_GET_DEFAULTS(function) != NULL
        || PyFunction_GET_KW_DEFAULTS(function) != NULL
        || (attributes != NULL && PyDict_GET_SIZE(attributes) != 0)) {
        return 0;
    }
    PyObject *key = PyLong_FromVoidPtr(PyFunction_GET_CODE(function));
    if (key == NULL) {
        return -1;
    }
    PyObject *names = PyDict_GetItemWithError(self->free, key);
    Py_DECREF(key);
    if (names == NULL && PyErr_Occurred()) {
        return -1;
    }
    return names == PyFunction_GET_GLOBALS(function);
}

/* Tells whether a tuple holds common atoms only. */
static int
is_simple(PyObject *value)
{
    for (Py_ssize_t index = 0; index < PyTuple_GET_SIZE(value); index++) {
        if (!is_common(Py_TYPE(PyTuple_GET_ITEM(value, index)))) {
            return 0;
        }
    }
    return 1;
}

static PyObject *
copy(Core *self, PyObject *value)
{
    int kept = is_atom(self, Py_TYPE(value));
    if (kept == 0 && PyTuple_CheckExact(value)) {
        kept = is_simple(value);
    }
    else if (kept == 0 && PyFunction_Check(value)) {
        kept = is_free(self, value);
    }
    if (kept != 0) {
        return kept < 0 ? NULL : own(value);
    }
    PyObject *made = recall(self, value);
    return made != NULL ? made : copy_anew(self, value);
}

/* --- attributes --------------------------------------------------------------------- */

/* Tells whether an object is known to have nothing at an offset that its class tells. */
static int
has_none_at(PyObject *item, Py_ssize_t offset)
{
    return offset > 0 && *(PyObject **)((char *)item + offset) == NULL;
}

/* Tells whether only the source's attributes and their copy refer to an empty OrderedDict
   without attributes. Then it needs no place in the memo. Modules of PyTorch have eleven. */
static int
is_alone(PyObject *item)
{
    return PyODict_CheckExact(item) && Py_REFCNT(item) == 2 && PyDict_GET_SIZE(item) == 0
        && has_none_at(item, Py_TYPE(item)->tp_weaklistoffset)
        && has_none_at(item, Py_TYPE(item)->tp_dictoffset);
}

static int
copy_fields(Core *self, PyObject *fields, PyObject *after)
{
    PyObject *name, *item;
    Py_ssize_t position = 0;
    int waiting = after != NULL;
    while (PyDict_Next(fields, &position, &name, &item)) {
        if (waiting) {
            Py_INCREF(name);
            int found = PyObject_RichCompareBool(name, after, Py_EQ);
            Py_DECREF(name);
            if (found < 0) {
                return -1;
            }
            waiting = !found;
            continue;
        }
        int kept = is_atom(self, Py_TYPE(item));
        if (kept > 0) {
            continue;
        }
        int alone = is_alone(item);
        Py_INCREF(name);
        Py_INCREF(item);
        PyObject *made = kept < 0 ? NULL : alone ? PyODict_New() : copy(self, item);
        Py_DECREF(item);
        if (made == NULL || PyDict_SetItem(fields, name, made) < 0) {
            Py_XDECREF(made);
            Py_XSETREF(self->failed, name);
            return -1;
        }
        Py_DECREF(made);
        Py_DECREF(name);
    }
    return 0;
}

static int
copy_attributes(Core *self, PyObject *value, PyObject *made)
{
    PyObject *held = PyObject_GenericGetDict(value, NULL);
    if (held == NULL) {
        return -1;
    }
    PyObject *fields = PyDict_CheckExact(held)
        ? PyDict_Copy(held) : PyObject_CallMethodNoArgs(held, copy_name);
    Py_DECREF(held);
    if (fields == NULL) {
        return -1;
    }
    /* Set last: code of the author's that runs meanwhile would change the source's. */
    int failed = PyDict_Check(fields) ? copy_fields(self, fields, NULL) : 0;
    if (!failed) {
        /* Not by PyObject_GenericSetDict, which leaves the old ones in place (Python 3.13). */
        failed = PyObject_GenericSetAttr(made, dict_name, fields);
    }
    Py_DECREF(fields);
    return failed;
}

/* --- items -------------------------------------------------------------------------- */

static int
copy_list_items(Core *self, PyObject *value, PyObject *made)
{
    for (Py_ssize_t index = 0; index < PyList_GET_SIZE(value); index++) {
        PyObject *item = own(PyList_GET_ITEM(value, index));
        PyObject *copied = copy(self, item);
        Py_DECREF(item);
        if (copied == NULL) {
            return -1;
        }
        int failed = PyList_Append(made, copied);
        Py_DECREF(copied);
        if (failed) {
            return -1;
        }
    }
    return 0;
}

static int
copy_dict_items(Core *self, PyObject *value, PyObject *made)
{
    if (PyDict_GET_SIZE(value) == 0) {
        return 0;
    }
    PyObject *key, *item;
    Py_ssize_t position = 0;
    int simple = PyDict_CheckExact(value);
    while (simple && PyDict_Next(value, &position, &key, &item)) {
        simple = is_common(Py_TYPE(key)) && is_common(Py_TYPE(item));
    }
    if (simple) {
        return PyDict_Update(made, value);
    }
    PyObject *items = PyDict_Items(value);
    if (items == NULL) {
        return -1;
    }
    int failed = 0;
    for (Py_ssize_t index = 0; !failed && index < PyList_GET_SIZE(items); index++) {
        PyObject *pair = PyList_GET_ITEM(items, index);
        PyObject *copied_key = copy(self, PyTuple_GET_ITEM(pair, 0));
        PyObject *copied = copied_key == NULL ? NULL : copy(self, PyTuple_GET_ITEM(pair, 1));
        failed = copied == NULL ? -1 : PyDict_SetItem(made, copied_key, copied);
        Py_XDECREF(copied_key);
        Py_XDECREF(copied);
    }
    Py_DECREF(items);
    return failed;
}

static int
copy_set_items(Core *self, PyObject *value, PyObject *made)
{
    if (PySet_GET_SIZE(value) == 0) {
        return 0;
    }
    PyObject *iterator = PySet_Type.tp_iter(value);
    if (iterator == NULL) {
        return -1;
    }
    PyObject *items = PySequence_List(iterator);
    Py_DECREF(iterator);
    if (items == NULL) {
        return -1;
    }
    int failed = 0;
    for (Py_ssize_t index = 0; !failed && index < PyList_GET_SIZE(items); index++) {
        PyObject *copied = copy(self, PyList_GET_ITEM(items, index));
        failed = copied == NULL ? -1 : PySet_Add(made, copied);
        Py_XDECREF(copied);
    }
    Py_DECREF(items);
    return failed;
}

/* --- the ways to copy --------------------------------------------------------------- */

typedef int (*filler)(Core *, PyObject *, PyObject *);

/* Remembers what was made, has it filled, and returns it. */
static PyObject *
filled(Core *self, PyObject *value, PyObject *made, filler items, filler attributes)
{
    if (made == NULL) {
        return NULL;
    }
    if (memo_write(self->memo, value, made) < 0
        || (items != NULL && items(self, value, made) < 0)
        || (attributes != NULL && attributes(self, value, made) < 0)) {
        Py_DECREF(made);
        return NULL;
    }
    return made;
}

static int
is_a(PyObject *value, PyTypeObject *kind)
{
    if (PyObject_TypeCheck(value, kind)) {
        return 1;
    }
    PyErr_Format(PyExc_TypeError, "expected a %s, not a %s", kind->tp_name,
                 Py_TYPE(value)->tp_name);
    return 0;
}

static PyObject *
copy_list(Core *self, PyObject *value)
{
    if (!is_a(value, &PyList_Type)) {
        return NULL;
    }
    return filled(self, value, PyList_New(0), copy_list_items, NULL);
}

static PyObject *
copy_dict(Core *self, PyObject *value)
{
    if (!is_a(value, &PyDict_Type)) {
        return NULL;
    }
    return filled(self, value, PyDict_New(), copy_dict_items, NULL);
}

static PyObject *
copy_set(Core *self, PyObject *value)
{
    if (!is_a(value, &PySet_Type)) {
        return NULL;
    }
    return filled(self, value, PySet_New(NULL), copy_set_items, NULL);
}

static PyObject *
copy_tuple(Core *self, PyObject *value)
{
    if (!is_a(value, &PyTuple_Type)) {
        return NULL;
    }
    Py_ssize_t size = PyTuple_GET_SIZE(value);
    if (size == 0) {
        return own(value); /* There is only one. */
    }
    PyObject *made = PyTuple_New(size);
    if (made == NULL) {
        return NULL;
    }
    PyObject_GC_UnTrack(made); /* Otherwise the collector would show it before it is made. */
    int changed = 0;
    for (Py_ssize_t index = 0; index < size; index++) {
        PyObject *item = PyTuple_GET_ITEM(value, index);
        PyObject *copied = copy(self, item);
        if (copied == NULL) {
            Py_DECREF(made);
            return NULL;
        }
        changed |= copied != item;
        PyTuple_SET_ITEM(made, index, copied);
    }
    PyObject_GC_Track(made);
    if (!changed) {
        Py_DECREF(made);
        return own(value);
    }
    /* A tuple can hold itself only through something that was copied above. */
    PyObject *known = recall(self, value);
    if (known != NULL) {
        Py_DECREF(made);
        return known;
    }
    return filled(self, value, made, NULL, NULL);
}

static PyObject *
make_empty(Core *self, PyObject *value)
{
    PyObject *made = PyObject_CallOneArg(blank, (PyObject *)Py_TYPE(value));
    return filled(self, value, made, NULL, NULL);
}

static PyObject *
copy_object(Core *self, PyObject *value)
{
    PyObject *made = PyObject_CallOneArg(blank, (PyObject *)Py_TYPE(value));
    return filled(self, value, made, NULL, copy_attributes);
}

static PyObject *
copy_list_object(Core *self, PyObject *value)
{
    if (!is_a(value, &PyList_Type)) {
        return NULL;
    }
    PyObject *made = PyList_Type.tp_new(Py_TYPE(value), no_arguments, NULL);
    return filled(self, value, made, copy_list_items, copy_attributes);
}

static PyObject *
copy_dict_object(Core *self, PyObject *value)
{
    if (!is_a(value, &PyDict_Type)) {
        return NULL;
    }
    PyObject *made = PyDict_Type.tp_new(Py_TYPE(value), no_arguments, NULL);
    return filled(self, value, made, copy_dict_items, copy_attributes);
}

static PyObject *
copy_set_object(Core *self, PyObject *value)
{
    if (!is_a(value, &PySet_Type)) {
        return NULL;
    }
    PyObject *made = PySet_Type.tp_new(Py_TYPE(value), no_arguments, NULL);
    return filled(self, value, made, copy_set_items, copy_attributes);
}

/* Returns the method that one of Keras's wrappers holds, if all else is as known too. */
static PyObject *
wrapped_method(PyObject *function)
{
#if PY_VERSION_HEX >= 0x030E0000
    return NULL; /* There, annotations are functions too. */
#endif
    PyObject *cells = PyFunction_GET_CLOSURE(function);
    PyObject *attributes = ((PyFunctionObject *)function)->func_dict;
    if (cells == NULL || PyTuple_GET_SIZE(cells) != 2 || attributes == NULL) {
        return NULL;
    }
    PyObject *layer = PyCell_GET(PyTuple_GET_ITEM(cells, 0));
    PyObject *method = PyCell_GET(PyTuple_GET_ITEM(cells, 1));
    if (layer == NULL || method == NULL || !Py_IS_TYPE(method, &PyMethod_Type)
        || PyMethod_GET_SELF(method) != layer || PyFunction_GET_KW_DEFAULTS(function) != NULL) {
        return NULL;
    }
    PyObject *name, *item;
    Py_ssize_t position = 0;
    int found = 0;
    while (PyDict_Next(attributes, &position, &name, &item)) {
        if (name == wrapped_name && item == method) {
            found = 1;
        }
        else if (!is_common(Py_TYPE(item))) {
            return NULL;
        }
    }
    return found ? own(method) : NULL;
}

/* Makes a function of the same code with another closure and other attributes. */
static PyObject *
new_function(PyObject *function, PyObject *closure, PyObject *attributes)
{
    PyFunctionObject *old = (PyFunctionObject *)function;
    PyObject *made = PyFunction_NewWithQualName(old->func_code, old->func_globals,
                                                old->func_qualname);
    if (made == NULL || PyFunction_SetClosure(made, closure) < 0
        || PyFunction_SetDefaults(made, old->func_defaults ? old->func_defaults : Py_None) < 0) {
        Py_XDECREF(made);
        return NULL;
    }
    PyFunctionObject *new = (PyFunctionObject *)made;
    Py_XINCREF(old->func_name);
    Py_XSETREF(new->func_name, old->func_name);
    Py_XINCREF(old->func_doc);
    Py_XSETREF(new->func_doc, old->func_doc);
    Py_XINCREF(old->func_module);
    Py_XSETREF(new->func_module, old->func_module);
    Py_XINCREF(old->func_annotations);
    Py_XSETREF(new->func_annotations, old->func_annotations);
    Py_XINCREF(attributes);
    Py_XSETREF(new->func_dict, attributes);
    return made;
}

/* Returns the new cell of a layer, which both of its wrappers have. */
static PyObject *
layer_cell(Core *self, PyObject *cell, PyObject *layer)
{
    PyObject *known = recall(self, cell);
    return known != NULL ? known : filled(self, cell, PyCell_New(layer), NULL, NULL);
}

/* Returns the method of a new layer, which may have been copied by another way. */
static PyObject *
layer_method(Core *self, PyObject *method, PyObject *layer)
{
    PyObject *known = recall(self, method);
    if (known != NULL) {
        return known;
    }
    PyObject *made = PyMethod_New(PyMethod_GET_FUNCTION(method), layer);
    return filled(self, method, made, NULL, NULL);
}

/* Makes a wrapper anew, around the method of the new layer. */
static PyObject *
wrap_anew(Core *self, PyObject *function, PyObject *method, PyObject *layer)
{
    PyObject *bound = layer_method(self, method, layer);
    if (bound == NULL) {
        return NULL;
    }
    PyObject *closure = NULL, *attributes = NULL, *made = NULL;
    PyObject *cells = PyFunction_GET_CLOSURE(function);
    PyObject *cell = layer_cell(self, PyTuple_GET_ITEM(cells, 0), layer);
    PyObject *bound_cell = cell == NULL ? NULL : PyCell_New(bound);
    if (bound_cell != NULL) {
        closure = PyTuple_Pack(2, cell, bound_cell);
    }
    if (closure != NULL) {
        attributes = PyDict_Copy(((PyFunctionObject *)function)->func_dict);
    }
    if (attributes != NULL && PyDict_SetItem(attributes, wrapped_name, bound) == 0) {
        made = new_function(function, closure, attributes);
    }
    Py_XDECREF(attributes);
    Py_XDECREF(closure);
    Py_XDECREF(bound_cell);
    Py_XDECREF(cell);
    Py_DECREF(bound);
    return filled(self, function, made, NULL, NULL);
}

/* Copies one of the two closures that Keras puts into every layer, if it is as known. */
static PyObject *
copy_wrapper(Core *self, PyObject *function)
{
    PyObject *key = PyLong_FromVoidPtr(PyFunction_GET_CODE(function));
    int known = key == NULL ? -1 : PySet_Contains(self->wrappers, key);
    Py_XDECREF(key);
    PyObject *method = known > 0 ? wrapped_method(function) : NULL;
    if (method == NULL) {
        return NULL;
    }
    PyObject *made = NULL, *layer = recall(self, PyMethod_GET_SELF(method));
    if (layer != NULL) {
        made = wrap_anew(self, function, method, layer);
        Py_DECREF(layer);
    }
    Py_DECREF(method);
    return made;
}

static PyObject *
copy_function(Core *self, PyObject *value)
{
    if (!is_a(value, &PyFunction_Type)) {
        return NULL;
    }
    int kept = is_free(self, value);
    if (kept != 0) {
        return kept < 0 ? NULL : own(value);
    }
    PyObject *made = copy_wrapper(self, value);
    if (made != NULL || PyErr_Occurred()) {
        return made;
    }
    return PyObject_CallMethodOneArg((PyObject *)self, bind_name, value);
}

static PyObject *
bind_function(Core *self, PyObject *value)
{
    return own(value);
}

static PyObject *
fields_method(Core *self, PyObject *const *arguments, Py_ssize_t count)
{
    if (count < 1 || count > 2 || !PyDict_Check(arguments[0])) {
        PyErr_SetString(PyExc_TypeError, "copy_fields takes a dict, and maybe a name");
        return NULL;
    }
    if (copy_fields(self, arguments[0], count == 2 ? arguments[1] : NULL) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

/* --- ids ---------------------------------------------------------------------------- */

/* Returns the ids of what the second of a pair holds. */
static PyObject *
ids_in(PyObject *pair)
{
    static const char *pairs = "a tracker has pairs of a test and a list";
    PyObject *parts = PySequence_Fast(pair, pairs), *items = NULL, *made = NULL;
    if (parts != NULL && PySequence_Fast_GET_SIZE(parts) != 2) {
        PyErr_SetString(PyExc_ValueError, pairs);
    }
    else if (parts != NULL) {
        items = PySequence_Fast(PySequence_Fast_GET_ITEM(parts, 1), pairs);
        made = items == NULL ? NULL : PySet_New(NULL);
    }
    for (Py_ssize_t index = 0; made != NULL && index < PySequence_Fast_GET_SIZE(items); index++) {
        PyObject *key = PyLong_FromVoidPtr(PySequence_Fast_GET_ITEM(items, index));
        if (key == NULL || PySet_Add(made, key) < 0) {
            Py_CLEAR(made);
        }
        Py_XDECREF(key);
    }
    Py_XDECREF(items);
    Py_XDECREF(parts);
    return made;
}

static PyObject *
ids_of(PyObject *module, PyObject *stores)
{
    if (!is_a(stores, &PyDict_Type)) {
        return NULL;
    }
    PyObject *items = PyDict_Items(stores);
    PyObject *made = items == NULL ? NULL : PyDict_New();
    for (Py_ssize_t index = 0; made != NULL && index < PyList_GET_SIZE(items); index++) {
        PyObject *item = PyList_GET_ITEM(items, index);
        PyObject *ids = ids_in(PyTuple_GET_ITEM(item, 1));
        if (ids == NULL || PyDict_SetItem(made, PyTuple_GET_ITEM(item, 0), ids) < 0) {
            Py_CLEAR(made);
        }
        Py_XDECREF(ids);
    }
    Py_XDECREF(items);
    return made;
}

/* --- the class and the module ------------------------------------------------------- */

static PyObject *
core_new(PyTypeObject *kind, PyObject *args, PyObject *kwargs)
{
    Core *self = (Core *)kind->tp_alloc(kind, 0);
    if (self == NULL) {
        return NULL;
    }
    self->handlers = PyDict_New();
    self->atoms = PySet_New(NULL);
    self->memo = (Memo *)memo_new(memo_type, NULL, NULL);
    self->free = PyDict_New();
    self->wrappers = PyFrozenSet_New(NULL);
    self->failed = own(Py_None);
    if (self->handlers == NULL || self->atoms == NULL || self->memo == NULL
        || self->free == NULL || self->wrappers == NULL) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static int
core_init(Core *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"handlers", "atoms", "wrappers", NULL};
    PyObject *handlers, *atoms, *wrappers;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O!O!", names, &PyDict_Type, &handlers,
                                     &PySet_Type, &atoms, &PyFrozenSet_Type, &wrappers)) {
        return -1;
    }
    Py_SETREF(self->handlers, own(handlers));
    Py_SETREF(self->atoms, own(atoms));
    Py_SETREF(self->wrappers, own(wrappers));
    return 0;
}

static PyObject *
get_atoms(Core *self, void *closure)
{
    return own(self->atoms);
}

static int
set_atoms(Core *self, PyObject *atoms, void *closure)
{
    if (atoms == NULL || !PySet_Check(atoms)) {
        PyErr_SetString(PyExc_TypeError, "atoms are a set of types");
        return -1;
    }
    Py_SETREF(self->atoms, own(atoms));
    return 0;
}

static int
core_traverse(Core *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->handlers);
    Py_VISIT(self->atoms);
    Py_VISIT(self->memo);
    Py_VISIT(self->free);
    Py_VISIT(self->wrappers);
    Py_VISIT(self->failed);
    return 0;
}

static int
core_clear(Core *self)
{
    Py_CLEAR(self->handlers);
    Py_CLEAR(self->atoms);
    Py_CLEAR(self->memo);
    Py_CLEAR(self->free);
    Py_CLEAR(self->wrappers);
    Py_CLEAR(self->failed);
    return 0;
}

static void
core_dealloc(Core *self)
{
    PyTypeObject *kind = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    core_clear(self);
    kind->tp_free((PyObject *)self);
    Py_DECREF(kind);
}

static PyMemberDef members[] = {
    {"handlers", T_OBJECT_EX, offsetof(Core, handlers), READONLY, NULL},
    {"memo", T_OBJECT_EX, offsetof(Core, memo), READONLY, NULL},
    {"free", T_OBJECT_EX, offsetof(Core, free), READONLY, NULL},
    {"failed", T_OBJECT_EX, offsetof(Core, failed), READONLY, NULL},
    {NULL},
};

static PyGetSetDef properties[] = {
    {"atoms", (getter)get_atoms, (setter)set_atoms, NULL, NULL},
    {NULL},
};

static PyMethodDef methods[] = {
    {"make_empty", (PyCFunction)make_empty, METH_O, NULL},
    {"copy", (PyCFunction)copy, METH_O, NULL},
    {"copy_fields", (PyCFunction)(void (*)(void))fields_method, METH_FASTCALL, NULL},
    {"copy_list", (PyCFunction)copy_list, METH_O, NULL},
    {"copy_dict", (PyCFunction)copy_dict, METH_O, NULL},
    {"copy_tuple", (PyCFunction)copy_tuple, METH_O, NULL},
    {"copy_set", (PyCFunction)copy_set, METH_O, NULL},
    {"copy_object", (PyCFunction)copy_object, METH_O, NULL},
    {"copy_list_object", (PyCFunction)copy_list_object, METH_O, NULL},
    {"copy_dict_object", (PyCFunction)copy_dict_object, METH_O, NULL},
    {"copy_set_object", (PyCFunction)copy_set_object, METH_O, NULL},
    {"copy_function", (PyCFunction)copy_function, METH_O, NULL},
    {"bind_function", (PyCFunction)bind_function, METH_O, NULL},
    {NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "Copies lists, dicts, tuples, sets, and objects by their attributes, each once."},
    {Py_tp_init, core_init},
    {Py_tp_new, core_new},
    {Py_tp_traverse, core_traverse},
    {Py_tp_clear, core_clear},
    {Py_tp_dealloc, core_dealloc},
    {Py_tp_members, members},
    {Py_tp_getset, properties},
    {Py_tp_methods, methods},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "ramet.bridge._core.Core",
    .basicsize = sizeof(Core),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = slots,
};

static PyMethodDef functions[] = {
    {"ids_of", ids_of, METH_O, "Returns the ids of what the stores of a tracker hold."},
    {NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "ramet.bridge._core",
    .m_doc = "The core of the copier, in C.",
    .m_size = -1,
    .m_methods = functions,
};

PyMODINIT_FUNC
PyInit__core(void)
{
    blank = PyObject_GetAttrString((PyObject *)&PyBaseObject_Type, "__new__");
    no_arguments = PyTuple_New(0);
    copy_name = PyUnicode_InternFromString("copy");
    dict_name = PyUnicode_InternFromString("__dict__");
    bind_name = PyUnicode_InternFromString("bind_function");
    wrapped_name = PyUnicode_InternFromString("__wrapped__");
    memo_type = (PyTypeObject *)PyType_FromSpec(&memo_spec);
    PyObject *kind = memo_type == NULL ? NULL : PyType_FromSpec(&spec);
    PyObject *module = PyModule_Create(&definition);
    if (blank == NULL || no_arguments == NULL || copy_name == NULL || bind_name == NULL
        || dict_name == NULL || wrapped_name == NULL || kind == NULL || module == NULL
        || PyModule_AddObjectRef(module, "Core", kind) < 0
        || PyModule_AddObjectRef(module, "Memo", (PyObject *)memo_type) < 0) {
        Py_XDECREF(kind);
        Py_XDECREF(module);
        return NULL;
    }
    Py_DECREF(kind);
    return module;
}
