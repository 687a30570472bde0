/* The core of the copier, in C. `core.py` is the reference, with docstrings; keep both in
   sync.

   Safety rules:
   - User code may run whenever an object is copied, hashed, compared or freed, and whenever a
     class is looked up, since its metaclass may hash in Python. So a loop runs over a private
     container (`fields`, a list of the items), or reads its state again after each step (a
     list, by index); and every object that is used meanwhile is owned, classes included.
   - User code never sees a half-initialized object: a list grows by appending.
   - Nothing outlives its module: a core owns the module whose state it uses.
   - Only as deep as the stack allows: `deeper.py` decides how many levels that is.
   - Only the public C API of Python. Where a dict or list of the source is read item by item,
     only the GIL keeps other threads away, so builds without it use the core in Python. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#if PY_VERSION_HEX < 0x030C0000
#include <structmember.h>
#define Py_T_OBJECT_EX T_OBJECT_EX
#define Py_T_PYSSIZET T_PYSSIZET
#define Py_READONLY READONLY
#endif

static PyObject *
own(PyObject *object)
{
    Py_INCREF(object);
    return object;
}

#include "_memo.h"

/* As in deeper.py: how many levels fit on any stack. */
#define SHALLOW 24

typedef struct {
    PyTypeObject *memo_type;
    PyObject *blank;        /* object.__new__ */
    PyObject *no_arguments; /* () */
    PyObject *copy_name;    /* "copy" */
    PyObject *dict_name;    /* "__dict__" */
    PyObject *bind_name;    /* "bind_function" */
    PyObject *wrapped_name; /* "__wrapped__" */
    PyObject *name_name;    /* "__name__" */
    PyObject *doc_name;     /* "__doc__" */
    PyObject *module_name;  /* "__module__" */
    PyObject *full_name;    /* "__qualname__" */
    PyObject *params_name;  /* "__type_params__" */
} State;

typedef struct {
    PyObject_HEAD
    PyObject *module;
    State *state;
    PyObject *handlers;
    PyObject *atoms;
    Memo *memo;
    PyObject *free;
    PyObject *wrappers;
    PyObject *failed;
    Py_ssize_t depth;   /* how many objects are being copied, each inside another */
    Py_ssize_t deepest; /* how many may be, until `copy_deeper` is asked */
    Py_ssize_t floor;   /* the address below which the same holds; 0: none */
} Core;

/* Returns the class of an object. User code may change it meanwhile, and free the old one. */
static PyTypeObject *
own_class(PyObject *object)
{
    return (PyTypeObject *)own((PyObject *)Py_TYPE(object));
}

/* --- atoms, the memo, the table of handlers ----------------------------------------- */

/* Whether a type is one of the most common atoms. */
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
        || kind == &PySet_Type || kind == &PyFunction_Type || kind == &PyODict_Type) {
        return 0;
    }
    PyObject *atoms = own(self->atoms);
    Py_INCREF(kind);
    int found = PySet_Contains(atoms, (PyObject *)kind);
    Py_DECREF(kind);
    Py_DECREF(atoms);
    return found;
}

/* Returns the copy in the memo, or NULL without an error. */
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
        /* By subscription: it calls __missing__, which looks up a new class. */
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
    PyTypeObject *kind = own_class(value);
    PyObject *handler = handler_for(self, kind);
    Py_DECREF(kind);
    if (handler == NULL) {
        return NULL;
    }
    PyObject *arguments[] = {(PyObject *)self, value};
    PyObject *made = PyObject_Vectorcall(handler, arguments, 2, NULL);
    Py_DECREF(handler);
    return made;
}

/* Asks for more levels: returns the copy, or raises the error that there are no more. */
static PyObject *
copy_deeper(Core *self, PyObject *value)
{
    PyObject *module = PyImport_ImportModule("ramet.copying.deeper");
    PyObject *deeper = module == NULL ? NULL : PyObject_GetAttrString(module, "copy_deeper");
    Py_XDECREF(module);
    PyObject *arguments[] = {(PyObject *)self, value};
    PyObject *made = deeper == NULL ? NULL : PyObject_Vectorcall(deeper, arguments, 2, NULL);
    Py_XDECREF(deeper);
    return made;
}

static PyObject *
copy_anew(Core *self, PyObject *value)
{
    char here;
    if (self->depth >= self->deepest || (uintptr_t)&here < (uintptr_t)self->floor) {
        return copy_deeper(self, value);
    }
    self->depth++;
    PyTypeObject *kind = Py_TYPE(value);
    /* The same as in the table, without a lookup. */
    PyObject *made = kind == &PyList_Type ? copy_list(self, value)
        : kind == &PyDict_Type ? copy_dict(self, value)
        : kind == &PyTuple_Type ? copy_tuple(self, value)
        : kind == &PySet_Type ? copy_set(self, value)
        : kind == &PyFunction_Type ? copy_function(self, value)
        : copy_by_handler(self, value);
    self->depth--;
    return made;
}

/* Returns the attributes of a function, borrowed, or NULL if it has none yet. */
static PyObject *
attributes_of(PyObject *function)
{
    return *(PyObject **)((char *)function + PyFunction_Type.tp_dictoffset);
}

/* Whether a function holds nothing and is known to reach no layer by a global name. */
static int
is_free(Core *self, PyObject *function)
{
    PyObject *attributes = attributes_of(function);
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

/* Whether all items of a tuple are common atoms. */
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

/* Whether an object has nothing at an offset that its class specifies. */
static int
has_none_at(PyObject *item, Py_ssize_t offset)
{
    return offset > 0 && *(PyObject **)((char *)item + offset) == NULL;
}

/* Whether only the source's attributes and their copy refer to an empty OrderedDict
   without attributes. Then it need not be in the memo. Modules of PyTorch have eleven. */
static int
is_alone(PyObject *item)
{
    return PyODict_CheckExact(item) && Py_REFCNT(item) == 2 && PyDict_GET_SIZE(item) == 0
        && has_none_at(item, Py_TYPE(item)->tp_weaklistoffset)
        && has_none_at(item, Py_TYPE(item)->tp_dictoffset);
}

/* Replaces one value of a dict by its copy, unless it is an atom. */
static int
copy_field(Core *self, PyObject *fields, PyObject *name, PyObject *item, int alone)
{
    PyObject *made = NULL;
    int kept = is_atom(self, Py_TYPE(item));
    if (kept > 0) {
        return 0;
    }
    if (kept == 0) {
        made = alone ? PyODict_New() : copy(self, item);
    }
    int failed = made == NULL ? -1 : PyDict_SetItem(fields, name, made);
    Py_XDECREF(made);
    if (failed) {
        Py_SETREF(self->failed, own(name));
    }
    return failed;
}

static int
copy_fields(Core *self, PyObject *fields, PyObject *after)
{
    PyObject *name, *item;
    Py_ssize_t position = 0, size = PyDict_GET_SIZE(fields);
    int waiting = after != NULL, failed = 0;
    while (!failed && PyDict_Next(fields, &position, &name, &item)) {
        if (!waiting && is_common(Py_TYPE(item))) {
            continue;
        }
        int alone = is_alone(item); /* before it is owned once more */
        Py_INCREF(name);
        Py_INCREF(item);
        if (waiting) {
            int found = PyObject_RichCompareBool(name, after, Py_EQ);
            failed = found < 0 ? -1 : 0;
            waiting = !found;
        }
        else {
            failed = copy_field(self, fields, name, item, alone);
        }
        Py_DECREF(item);
        Py_DECREF(name);
        if (!failed && PyDict_GET_SIZE(fields) != size) {
            PyErr_SetString(PyExc_RuntimeError, "dictionary changed size during iteration");
            failed = -1;
        }
    }
    return failed;
}

static int
copy_attributes(Core *self, PyObject *value, PyObject *made)
{
    PyObject *held = PyObject_GenericGetDict(value, NULL);
    if (held == NULL) {
        return -1;
    }
    PyObject *fields = PyDict_CheckExact(held)
        ? PyDict_Copy(held) : PyObject_CallMethodNoArgs(held, self->state->copy_name);
    Py_DECREF(held);
    if (fields == NULL) {
        return -1;
    }
    /* Set last: user code that runs meanwhile would change the attributes of the source. */
    int failed = PyDict_Check(fields) ? copy_fields(self, fields, NULL) : 0;
    if (!failed) {
#if PY_VERSION_HEX < 0x030D0000
        failed = PyObject_GenericSetDict(made, fields, NULL);
#else
        /* There, PyObject_GenericSetDict leaves the old ones in place. */
        failed = PyObject_GenericSetAttr(made, self->state->dict_name, fields);
#endif
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
        PyObject *pair = own(PyList_GET_ITEM(items, index));
        PyObject *copied_key = copy(self, PyTuple_GET_ITEM(pair, 0));
        PyObject *copied = copied_key == NULL ? NULL : copy(self, PyTuple_GET_ITEM(pair, 1));
        failed = copied == NULL ? -1 : PyDict_SetItem(made, copied_key, copied);
        Py_XDECREF(copied_key);
        Py_XDECREF(copied);
        Py_DECREF(pair);
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
        PyObject *item = own(PyList_GET_ITEM(items, index));
        PyObject *copied = copy(self, item);
        failed = copied == NULL ? -1 : PySet_Add(made, copied);
        Py_XDECREF(copied);
        Py_DECREF(item);
    }
    Py_DECREF(items);
    return failed;
}

/* --- the methods that copy ---------------------------------------------------------- */

typedef int (*filler)(Core *, PyObject *, PyObject *);

/* Adds an empty copy to the memo, fills it, and returns it. */
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
    PyObject_GC_UnTrack(made); /* Or the collector would expose it before it is complete. */
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
    /* A tuple can contain itself only through an item that was copied above. */
    PyObject *known = recall(self, value);
    if (known != NULL) {
        Py_DECREF(made);
        return known;
    }
    return filled(self, value, made, NULL, NULL);
}

/* Returns an empty object of the same class. */
static PyObject *
blank_like(Core *self, PyObject *value)
{
    PyTypeObject *kind = own_class(value);
    PyObject *made = PyObject_CallOneArg(self->state->blank, (PyObject *)kind);
    Py_DECREF(kind);
    return made;
}

/* Returns an empty container of the same class, a subclass of `base`. */
static PyObject *
empty_like(Core *self, PyObject *value, PyTypeObject *base)
{
    if (!is_a(value, base)) {
        return NULL;
    }
    PyTypeObject *kind = own_class(value);
    PyObject *made = base->tp_new(kind, self->state->no_arguments, NULL);
    Py_DECREF(kind);
    return made;
}

static PyObject *
make_empty(Core *self, PyObject *value)
{
    return filled(self, value, blank_like(self, value), NULL, NULL);
}

static PyObject *
copy_object(Core *self, PyObject *value)
{
    return filled(self, value, blank_like(self, value), NULL, copy_attributes);
}

static PyObject *
copy_list_object(Core *self, PyObject *value)
{
    PyObject *made = empty_like(self, value, &PyList_Type);
    return filled(self, value, made, copy_list_items, copy_attributes);
}

static PyObject *
copy_dict_object(Core *self, PyObject *value)
{
    PyObject *made = empty_like(self, value, &PyDict_Type);
    return filled(self, value, made, copy_dict_items, copy_attributes);
}

static PyObject *
copy_set_object(Core *self, PyObject *value)
{
    PyObject *made = empty_like(self, value, &PySet_Type);
    return filled(self, value, made, copy_set_items, copy_attributes);
}

/* Returns the method in one of Keras's wrappers, if the wrapper is as expected. */
static PyObject *
wrapped_method(Core *self, PyObject *function)
{
    PyObject *cells = PyFunction_GET_CLOSURE(function);
    PyObject *attributes = attributes_of(function);
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
        if (name == self->state->wrapped_name && item == method) {
            found = 1;
        }
        else if (!is_common(Py_TYPE(item))) {
            return NULL;
        }
    }
    return found ? own(method) : NULL;
}

/* Sets an attribute of a new function to that of the old one. */
static int
copy_attribute(PyObject *old, PyObject *new, PyObject *name)
{
    PyObject *value = PyObject_GetAttr(old, name);
    int failed = value == NULL ? -1 : PyObject_SetAttr(new, name, value);
    Py_XDECREF(value);
    return failed;
}

/* Sets the annotations of a new function to those of the old one, without computing them. */
static int
copy_annotations(PyObject *old, PyObject *new)
{
#if PY_VERSION_HEX >= 0x030E0000
    PyObject *annotate = PyObject_GetAttrString(old, "__annotate__");
    if (annotate == NULL) {
        return -1;
    }
    if (annotate != Py_None) {
        int failed = PyObject_SetAttrString(new, "__annotate__", annotate);
        Py_DECREF(annotate);
        return failed;
    }
    Py_DECREF(annotate);
#endif
    PyObject *annotations = PyFunction_GetAnnotations(old);
    if (annotations == NULL) {
        return PyErr_Occurred() ? -1 : 0;
    }
    Py_INCREF(annotations);
    int failed = PyFunction_SetAnnotations(new, annotations);
    Py_DECREF(annotations);
    return failed;
}

/* Creates a function of the same code with another closure and other attributes. */
static PyObject *
new_function(Core *self, PyObject *function, PyObject *closure, PyObject *attributes)
{
    State *state = self->state;
    PyObject *name = PyObject_GetAttr(function, state->full_name);
    if (name == NULL) {
        return NULL;
    }
    PyObject *made = PyFunction_NewWithQualName(PyFunction_GET_CODE(function),
                                                PyFunction_GET_GLOBALS(function), name);
    Py_DECREF(name);
    PyObject *defaults = PyFunction_GET_DEFAULTS(function);
    if (made == NULL || PyFunction_SetClosure(made, closure) < 0
        || PyFunction_SetDefaults(made, defaults == NULL ? Py_None : defaults) < 0
        || copy_attribute(function, made, state->name_name) < 0
        || copy_attribute(function, made, state->doc_name) < 0
        || copy_attribute(function, made, state->module_name) < 0
        || copy_annotations(function, made) < 0
#if PY_VERSION_HEX >= 0x030C0000
        || copy_attribute(function, made, state->params_name) < 0
#endif
        || PyObject_GenericSetDict(made, attributes, NULL) < 0) {
        Py_XDECREF(made);
        return NULL;
    }
    return made;
}

/* Returns the new cell of a layer, which its two wrappers share. */
static PyObject *
layer_cell(Core *self, PyObject *cell, PyObject *layer)
{
    PyObject *known = recall(self, cell);
    return known != NULL ? known : filled(self, cell, PyCell_New(layer), NULL, NULL);
}

/* Returns the method of a new layer, which may be in the memo already. */
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

/* Re-creates a wrapper, around the method of the new layer. */
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
        attributes = PyDict_Copy(attributes_of(function));
    }
    if (attributes != NULL && PyDict_SetItem(attributes, self->state->wrapped_name, bound) == 0) {
        made = new_function(self, function, closure, attributes);
    }
    Py_XDECREF(attributes);
    Py_XDECREF(closure);
    Py_XDECREF(bound_cell);
    Py_XDECREF(cell);
    Py_DECREF(bound);
    return filled(self, function, made, NULL, NULL);
}

/* Copies one of the two closures that Keras puts into every layer, if it is as expected. */
static PyObject *
copy_wrapper(Core *self, PyObject *function)
{
    PyObject *key = PyLong_FromVoidPtr(PyFunction_GET_CODE(function));
    int known = key == NULL ? -1 : PySet_Contains(self->wrappers, key);
    Py_XDECREF(key);
    PyObject *method = known > 0 ? wrapped_method(self, function) : NULL;
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
    return PyObject_CallMethodOneArg((PyObject *)self, self->state->bind_name, value);
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

/* Returns the ids of the items of the second of a pair. */
static PyObject *
ids_in(PyObject *pair)
{
    static const char *pairs = "a tracker has pairs of a test and a list";
    PyObject *parts = PySequence_Fast(pair, pairs), *items = NULL, *made = NULL;
    if (parts != NULL && PySequence_Fast_GET_SIZE(parts) != 2) {
        PyErr_SetString(PyExc_ValueError, pairs);
    }
    else if (parts != NULL) {
        PyObject *store = own(PySequence_Fast_GET_ITEM(parts, 1));
        items = PySequence_Fast(store, pairs);
        Py_DECREF(store);
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
        PyObject *item = own(PyList_GET_ITEM(items, index));
        PyObject *ids = ids_in(PyTuple_GET_ITEM(item, 1));
        if (ids == NULL || PyDict_SetItem(made, PyTuple_GET_ITEM(item, 0), ids) < 0) {
            Py_CLEAR(made);
        }
        Py_XDECREF(ids);
        Py_DECREF(item);
    }
    Py_XDECREF(items);
    return made;
}

/* --- the class and the module ------------------------------------------------------- */

static struct PyModuleDef definition;

static PyObject *
core_new(PyTypeObject *kind, PyObject *args, PyObject *kwargs)
{
    PyObject *module = PyType_GetModuleByDef(kind, &definition);
    Core *self = module == NULL ? NULL : (Core *)kind->tp_alloc(kind, 0);
    if (self == NULL) {
        return NULL;
    }
    self->module = own(module);
    self->state = PyModule_GetState(module);
    self->handlers = PyDict_New();
    self->atoms = PySet_New(NULL);
    self->memo = (Memo *)memo_new(self->state->memo_type, NULL, NULL);
    self->free = PyDict_New();
    self->wrappers = PyFrozenSet_New(NULL);
    self->failed = own(Py_None);
    self->deepest = SHALLOW;
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
    Py_VISIT(self->module);
    Py_VISIT(self->handlers);
    Py_VISIT(self->atoms);
    Py_VISIT(self->memo);
    Py_VISIT(self->free);
    Py_VISIT(self->wrappers);
    Py_VISIT(self->failed);
    return 0;
}

/* What else a core holds breaks its cycles itself. So a core works until it is freed. */
static int
core_clear(Core *self)
{
    Py_XSETREF(self->failed, own(Py_None));
    return 0;
}

static void
core_dealloc(Core *self)
{
    PyTypeObject *kind = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    Py_CLEAR(self->handlers);
    Py_CLEAR(self->atoms);
    Py_CLEAR(self->memo);
    Py_CLEAR(self->free);
    Py_CLEAR(self->wrappers);
    Py_CLEAR(self->failed);
    Py_CLEAR(self->module);
    kind->tp_free((PyObject *)self);
    Py_DECREF(kind);
}

static PyMemberDef members[] = {
    {"handlers", Py_T_OBJECT_EX, offsetof(Core, handlers), Py_READONLY, NULL},
    {"memo", Py_T_OBJECT_EX, offsetof(Core, memo), Py_READONLY, NULL},
    {"free", Py_T_OBJECT_EX, offsetof(Core, free), Py_READONLY, NULL},
    {"failed", Py_T_OBJECT_EX, offsetof(Core, failed), Py_READONLY, NULL},
    {"depth", Py_T_PYSSIZET, offsetof(Core, depth), Py_READONLY, NULL},
    {"deepest", Py_T_PYSSIZET, offsetof(Core, deepest), 0, NULL},
    {"floor", Py_T_PYSSIZET, offsetof(Core, floor), 0, NULL},
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
    .name = "ramet.copying._core.Core",
    .basicsize = sizeof(Core),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = slots,
};

static PyMethodDef functions[] = {
    {"ids_of", ids_of, METH_O, "Returns the ids of what the stores of a tracker hold."},
    {NULL},
};

static int
state_traverse(PyObject *module, visitproc visit, void *arg)
{
    State *state = PyModule_GetState(module);
    Py_VISIT(state->memo_type);
    Py_VISIT(state->blank);
    return 0;
}

/* There is no m_clear: cores use the state until the last of them is freed. */
static void
state_free(void *module)
{
    State *state = PyModule_GetState(module);
    Py_CLEAR(state->memo_type);
    Py_CLEAR(state->blank);
    Py_CLEAR(state->no_arguments);
    Py_CLEAR(state->copy_name);
    Py_CLEAR(state->dict_name);
    Py_CLEAR(state->bind_name);
    Py_CLEAR(state->wrapped_name);
    Py_CLEAR(state->name_name);
    Py_CLEAR(state->doc_name);
    Py_CLEAR(state->module_name);
    Py_CLEAR(state->full_name);
    Py_CLEAR(state->params_name);
}

static int
add_type(PyObject *module, const char *name, PyObject *kind)
{
    return kind == NULL ? -1 : PyModule_AddObjectRef(module, name, kind);
}

static int
fill_module(PyObject *module)
{
#ifdef Py_GIL_DISABLED
    PyErr_SetString(PyExc_ImportError, "the core in C needs the GIL, which this Python lacks");
    return -1;
#endif
    State *state = PyModule_GetState(module);
    state->blank = PyObject_GetAttrString((PyObject *)&PyBaseObject_Type, "__new__");
    state->no_arguments = PyTuple_New(0);
    state->copy_name = PyUnicode_InternFromString("copy");
    state->dict_name = PyUnicode_InternFromString("__dict__");
    state->bind_name = PyUnicode_InternFromString("bind_function");
    state->wrapped_name = PyUnicode_InternFromString("__wrapped__");
    state->name_name = PyUnicode_InternFromString("__name__");
    state->doc_name = PyUnicode_InternFromString("__doc__");
    state->module_name = PyUnicode_InternFromString("__module__");
    state->full_name = PyUnicode_InternFromString("__qualname__");
    state->params_name = PyUnicode_InternFromString("__type_params__");
    state->memo_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &memo_spec, NULL);
    if (PyErr_Occurred()) {
        return -1;
    }
    PyObject *kind = PyType_FromModuleAndSpec(module, &spec, NULL);
    int failed = add_type(module, "Core", kind) < 0
        || add_type(module, "Memo", (PyObject *)state->memo_type) < 0;
    Py_XDECREF(kind);
    return failed ? -1 : 0;
}

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, fill_module},
#if PY_VERSION_HEX >= 0x030C0000
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#endif
#if PY_VERSION_HEX >= 0x030D0000
    /* Else a build without the GIL would turn it on, before fill_module refuses. */
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "ramet.copying._core",
    .m_doc = "The core of the copier, in C.",
    .m_size = sizeof(State),
    .m_methods = functions,
    .m_slots = module_slots,
    .m_traverse = state_traverse,
    .m_free = state_free,
};

PyMODINIT_FUNC
PyInit__core(void)
{
    return PyModuleDef_Init(&definition);
}
