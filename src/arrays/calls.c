/* Calls of what a framework compiled: an outermost one ends a step.
 *
 * Objects of jaxlib's PjitFunction carry their vectorcall with them, so that
 * those of the user's functions are given ours and those of the framework's
 * own (every function of jax.numpy is one) cost nothing.  A new one is seen
 * when the framework notes in an attribute which function it was made of.
 * Classes of Python's are seen by their tp_call.
 *
 * One in whose trace gradients were taken trains, and so does what calls it:
 * from there on it has another vectorcall.
 */
#include "../core/base/read.h"
#include "../core/base/thread.h"
#include "hooks.h"

#include <string.h>

#define MOST_TYPES 8

static vectorcallfunc instance_call; /* as the framework has it */
static setattrofunc set_attribute;
static PyTypeObject *instances; /* owned */
static PyObject *attribute;     /* owned: str */
static struct {
    PyTypeObject *type;   /* owned */
    PyObject *function;   /* owned: str, the attribute that has it, or NULL */
    ternaryfunc call;     /* as it was */
} types[MOST_TYPES];
static int ntypes, reporting;
/* Functions that were traced are numbered by the listener: how often each was
 * called since its first trace, by whichever callable was made of it.  A
 * callable has one of so many places; in the last of them the one that was
 * traced last is counted. */
#define MOST_COUNTED 1024
#define PLACES 256
#define TRIED 4
static struct {
    PyObject *callable; /* borrowed address, compared only */
    uint32_t number;
    int trains;
} counted[PLACES + TRIED];
static uint64_t calls[MOST_COUNTED];
static PyObject *listener; /* owned */
static IA_OF_THREAD int depth;
/* Since the innermost call began, or by one within: something was traced,
 * gradients were taken. */
typedef struct {
    uint8_t traced, trains;
} seen;
static IA_OF_THREAD seen now;

/* -- after a call ---------------------------------------------------------- */

/* Where it is, or else may be. */
static size_t
place_of(PyObject *callable)
{
    size_t i = ((uintptr_t)callable >> 4) % PLACES, last = i + TRIED - 1;
    while (i < last && counted[i].callable != callable &&
           counted[i].callable != NULL)
        i++;
    return i;
}

static size_t
take_place(PyObject *callable)
{
    size_t i = place_of(callable);
    if (counted[i].callable != callable) {
        counted[i].callable = callable;
        counted[i].number = MOST_COUNTED;
        counted[i].trains = 0;
    }
    return i;
}

/* An outermost call: what it was. */
static ia_event
count_call(PyObject *callable)
{
    size_t i = place_of(callable);
    if (counted[i].callable == callable && counted[i].number < MOST_COUNTED)
        calls[counted[i].number]++;
    return now.trains ? IA_EVENT_BACKWARD : IA_EVENT_COMPILED;
}

/* `name`: the attribute that has what was compiled, or NULL. */
static void
tell_of_trace(PyObject *callable, PyObject *name, PyObject *args,
              PyObject *kwargs)
{
    now.traced = 0;
    if (listener == NULL || args == NULL)
        return;
    PyObject *given =
        name != NULL ? ia_instance_attribute(callable, ia_utf8(name)) : NULL;
    PyObject *function = given != NULL ? ia_program_function(given) : NULL;
    PyObject *hold = Py_NewRef(listener);
    PyObject *result = PyObject_CallFunctionObjArgs(
        hold, callable, function ? function : Py_None, args,
        kwargs ? kwargs : Py_None, NULL);
    size_t number = result != NULL && PyLong_CheckExact(result)
                        ? PyLong_AsSize_t(result)
                        : MOST_COUNTED;
    PyErr_Clear();
    if (number < MOST_COUNTED)
        counted[take_place(callable)].number = (uint32_t)number;
    Py_XDECREF(result);
    Py_DECREF(hold);
}

static PyObject *
named_args(PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *kwargs = PyDict_New();
    Py_ssize_t n = names ? PyTuple_GET_SIZE(names) : 0;
    for (Py_ssize_t i = 0; kwargs && i < n; i++)
        if (PyDict_SetItem(kwargs, PyTuple_GET_ITEM(names, i),
                           args[count + i]) < 0)
            Py_CLEAR(kwargs);
    return kwargs;
}

static void
tell_of_vectorcall(PyObject *callable, PyObject *const *args, size_t nargsf,
                   PyObject *names)
{
    Py_ssize_t count = PyVectorcall_NARGS(nargsf);
    PyObject *tuple = PyTuple_New(count);
    PyObject *kwargs = named_args(args, count, names);
    for (Py_ssize_t i = 0; tuple && i < count; i++)
        PyTuple_SET_ITEM(tuple, i, Py_NewRef(args[i]));
    if (kwargs != NULL)
        tell_of_trace(callable, attribute, tuple, kwargs);
    PyErr_Clear();
    Py_XDECREF(tuple);
    Py_XDECREF(kwargs);
}

static vectorcallfunc *
slot_of(PyObject *callable)
{
    return (vectorcallfunc *)((char *)callable +
                              Py_TYPE(callable)->tp_vectorcall_offset);
}

/* A call begins; what was traced outside of any is no compiled function.
 * What the call around it has done, for the end of this one. */
static seen
begin_call(void)
{
    seen around = depth++ > 0 ? now : (seen){0, 0};
    now = (seen){0, 0};
    return around;
}

/* Nonzero for an outermost call that was one. */
static int
end_call(seen around, PyObject *result)
{
    now.traced |= around.traced;
    now.trains |= around.trains;
    return --depth == 0 && result != NULL && reporting;
}

static void
tell_of_end(PyObject *self, PyObject *const *args, size_t nargsf,
            PyObject *names)
{
    if (now.traced)
        tell_of_vectorcall(self, args, nargsf, names);
    ia_event event = count_call(self);
    Py_ssize_t named = names ? PyTuple_GET_SIZE(names) : 0;
    ia_api->call_ends(event, args, PyVectorcall_NARGS(nargsf) + named);
}

static PyObject *
call_training(PyObject *self, PyObject *const *args, size_t nargsf,
              PyObject *names)
{
    seen around = begin_call();
    PyObject *result = instance_call(self, args, nargsf, names);
    now.trains = 1;
    if (end_call(around, result))
        tell_of_end(self, args, nargsf, names);
    return result;
}

static PyObject *
call_instance(PyObject *self, PyObject *const *args, size_t nargsf,
              PyObject *names)
{
    seen around = begin_call();
    PyObject *result = instance_call(self, args, nargsf, names);
    if (now.trains && *slot_of(self) == call_instance)
        *slot_of(self) = call_training;
    if (end_call(around, result))
        tell_of_end(self, args, nargsf, names);
    return result;
}

/* Its number; there is one where our slot is. */
static int
number_of_type(PyTypeObject *type)
{
    int i = 0;
    while (i < ntypes - 1 && !PyType_IsSubtype(type, types[i].type))
        i++;
    return i;
}

/* One that has no vectorcall of its own: what its trace has shown stays. */
static void
note_training(PyObject *callable)
{
    size_t i = now.traced ? take_place(callable) : place_of(callable);
    if (now.traced)
        counted[i].trains = now.trains;
    else if (counted[i].callable == callable)
        now.trains |= counted[i].trains;
}

static PyObject *
call_typed(PyObject *self, PyObject *args, PyObject *kwargs)
{
    seen around = begin_call();
    int i = number_of_type(Py_TYPE(self));
    PyObject *result = types[i].call(self, args, kwargs);
    note_training(self);
    if (!end_call(around, result))
        return result;
    if (now.traced)
        tell_of_trace(self, types[i].function, args, kwargs);
    ia_event event = count_call(self);
    PyObject *given[] = {args, kwargs};
    ia_api->call_ends(event, given, kwargs != NULL ? 2 : 1);
    return result;
}

/* -- in and out ------------------------------------------------------------ */

void
ia_calls_watch_instance(PyObject *callable, PyObject *function)
{
    if (instances == NULL || Py_TYPE(callable) != instances ||
        ia_program_function(function) == NULL)
        return;
    vectorcallfunc *slot = slot_of(callable);
    if (instance_call == NULL && *slot != call_instance)
        instance_call = *slot;
    if (*slot == instance_call)
        *slot = call_instance;
}

static int
note_attribute(PyObject *self, PyObject *name, PyObject *value)
{
    int result = set_attribute(self, name, value);
    if (result == 0 && reporting && value != NULL &&
        PyUnicode_Compare(name, attribute) == 0)
        ia_calls_watch_instance(self, value);
    return result;
}

int
ia_calls_watch_instances(PyTypeObject *type, const char *name)
{
    if (type->tp_vectorcall_offset <= 0) {
        PyErr_Format(PyExc_RuntimeError, "%s is called in another way",
                     type->tp_name);
        return -1;
    }
    if (attribute == NULL)
        attribute = PyUnicode_InternFromString(name);
    if (attribute == NULL)
        return -1;
    if (instances == NULL)
        instances = (PyTypeObject *)Py_NewRef((PyObject *)type);
    if (type->tp_setattro != note_attribute) {
        set_attribute = type->tp_setattro;
        type->tp_setattro = note_attribute;
        PyType_Modified(type);
    }
    reporting = 1;
    return 0;
}

int
ia_calls_watch_type(PyTypeObject *type, const char *function)
{
    reporting = 1;
    if (type->tp_call == call_typed || type->tp_call == NULL)
        return 0;
    int i = 0;
    while (i < ntypes && types[i].type != type)
        i++;
    if (i == MOST_TYPES)
        return 0;
    if (i == ntypes) {
        types[i].function =
            function != NULL ? PyUnicode_InternFromString(function) : NULL;
        if (function != NULL && types[i].function == NULL)
            return -1;
        types[ntypes++].type = (PyTypeObject *)Py_NewRef((PyObject *)type);
    }
    types[i].call = type->tp_call;
    type->tp_call = call_typed;
    return 0;
}

/* Objects keep our vectorcall, which hands on. */
void
ia_calls_unwatch(void)
{
    reporting = 0;
    if (instances != NULL && instances->tp_setattro == note_attribute) {
        instances->tp_setattro = set_attribute;
        PyType_Modified(instances);
    }
    for (int i = 0; i < ntypes; i++)
        if (types[i].type->tp_call == call_typed)
            types[i].type->tp_call = types[i].call;
    Py_CLEAR(listener);
}

void
ia_calls_set_listener(PyObject *function)
{
    for (size_t i = 0; i < PLACES + TRIED; i++)
        counted[i].number = MOST_COUNTED;
    memset(calls, 0, sizeof calls);
    Py_XSETREF(listener, Py_XNewRef(function));
}

uint64_t
ia_calls_of(size_t number)
{
    return number < MOST_COUNTED ? calls[number] : 0;
}

void
ia_calls_traced(void)
{
    now.traced = 1;
}

void
ia_calls_train(void)
{
    now.trains = 1;
}

int
ia_calls_running(void)
{
    return depth > 0;
}

void
ia_calls_silence(void)
{
    reporting = 0;
}

int
ia_calls_traverse(visitproc visit, void *arg)
{
    Py_VISIT(listener);
    return 0;
}
