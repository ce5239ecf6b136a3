/* Functions of _core: who holds what, by a walk or by a visit. */

#include "../base/compat.h"
#include "../base/footprint.h"
#include "../holders/statement.h"
#include "../answers/census.h"
#include "../answers/diagnosis.h"
#include "../answers/explain.h"
#include "../answers/native.h"
#include "../holders/visits.h"
#include "methods.h"

static PyObject *
diagnose(PyObject *self, PyObject *args)
{
    ia_asked_sites asked = {NULL, NULL, NULL, NULL};
    int remember = 0, weigh = 0, ways = 0, near = 0;
    (void)self;
    if (!PyArg_ParseTuple(args, "OO|pOpppO:diagnose", &asked.sites,
                          &asked.any_age, &remember, &asked.anew, &weigh,
                          &ways, &near, &asked.alone))
        return NULL;
    return ia_diagnose(&asked, remember, weigh, ways, near);
}

static PyObject *
explain(PyObject *self, PyObject *args)
{
    PyObject *objects;
    Py_ssize_t paths;
    int ways;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!np:explain", &PyTuple_Type, &objects,
                          &paths, &ways))
        return NULL;
    return ia_explain(objects, paths, ways);
}

static PyObject *
instances(PyObject *self, PyObject *args)
{
    PyTypeObject *type;
    Py_ssize_t most;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!n:instances", &PyType_Type, &type, &most))
        return NULL;
    return ia_instances(type, most);
}

static PyObject *
native_of_site(PyObject *self, PyObject *arg)
{
    unsigned long long site = PyLong_AsUnsignedLongLong(arg);
    (void)self;
    return PyErr_Occurred() ? NULL : ia_native_of_site(site);
}

static PyObject *
native_calls_of_site(PyObject *self, PyObject *arg)
{
    uint64_t site = PyLong_AsUnsignedLongLong(arg);
    (void)self;
    return PyErr_Occurred() ? NULL : ia_native_calls_of_site(site);
}

static PyObject *
native_of_object(PyObject *self, PyObject *op)
{
    (void)self;
    return ia_native_of_object(op);
}

/* -- holders that are known ------------------------------------------------ */

static PyObject *
visit(PyObject *self, PyObject *arg)
{
    static const char *const states[] = {"broken", "intact", "unknown"};
    PyObject *recurs[] = {Py_None, Py_True, Py_False};
    unsigned long path = PyLong_AsUnsignedLong(arg);
    (void)self;
    if (PyErr_Occurred())
        return NULL;
    ia_visit v = ia_visit_path((uint32_t)path, NULL);
    return Py_BuildValue("(snKKKOnK)", states[v.state], v.length,
                         (unsigned long long)v.value,
                         (unsigned long long)v.first,
                         (unsigned long long)(uintptr_t)v.graph,
                         recurs[v.recurs], (Py_ssize_t)v.bytes,
                         (unsigned long long)v.eldest);
}

static PyObject *
keep_paths(PyObject *self, PyObject *args)
{
    PyObject *paths;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!:keep_paths", &PyList_Type, &paths) ||
        ia_visits_keep(paths) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *
census(PyObject *self, PyObject *arg)
{
    unsigned long path = PyLong_AsUnsignedLong(arg);
    (void)self;
    return PyErr_Occurred() ? NULL : ia_census_build((uint32_t)path);
}

static PyObject *
watch_statement(PyObject *self, PyObject *args)
{
    unsigned int path;
    int by_graph;
    (void)self;
    if (!PyArg_ParseTuple(args, "Ip", &path, &by_graph))
        return NULL;
    return PyBool_FromLong(ia_statement_watch(path, by_graph));
}

static PyObject *
end_statement(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    ia_statement_end();
    return ia_statement_build();
}

static PyObject *
seen_statements(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    return ia_statement_build();
}

/* For tests. */
static PyObject *
test_footprint(PyObject *self, PyObject *op)
{
    ia_footprint f;
    (void)self;
    ia_footprint_begin();
    ia_footprint_of(op, &f);
    return Py_BuildValue("(KKK)", (unsigned long long)f.asked,
                         (unsigned long long)f.bytes,
                         (unsigned long long)f.malloc);
}

DOC(diagnose,
    "(sites, any_age, remember=False, anew=(), weigh=False, ways=False,\n"
    "near=False, alone=())",
    "Walk the heap and say who holds the storages of these sites; of those\n"
    "in any_age also the ones born before the warm-up was over.  Weigh: the\n"
    "bytes of Python's objects by type, and of autograd nodes.  Ways: what\n"
    "each object on the way to a holder retains.  Near: where the user's own\n"
    "modules and calls lead to all of these storages, or without a site to\n"
    "all that are alive, libraries' modules are not walked; what they hold of\n"
    "them besides is not known then.");
DOC(explain, "(objects, paths, ways)",
    "Who holds each object of a tuple, at most so many paths each.  Ways:\n"
    "what each object on a path retains.");
DOC(instances, "(type, most)",
    "(count, paths) of the live instances of a class.");
DOC(native_of_site, "(site)",
    "[(library, symbol, blocks that it leads to, blocks asked)] of variables\n"
    "that lead to blocks of this line, by a search of the process's memory;\n"
    "or the object that wraps what leads there, and None.");
DOC(native_calls_of_site, "(site)",
    "[(library, function or None), ...]: the native calls in which the most of\n"
    "this line's sampled blocks were made, the innermost first; samples are\n"
    "taken where nothing in Python leads to what a line keeps.");
DOC(native_of_object, "(object)", "The same of a tensor's memory.");
DOC(visit, "(path)",
    "(state, length, value, first item, graph, recurs, bytes, eldest item) at\n"
    "the end of a known path: \"intact\", \"broken\" or \"unknown\"; addresses,\n"
    "for comparing; whether a tensor's graph leads back to that of the visit\n"
    "before.");
DOC(keep_paths, "(paths)", "No others are visited any more.");
DOC(census, "(path)", "{description: count} of the holder's items, or None.");
DOC(watch_statement, "(path, by_graph)",
    "Watch which statements grow the holder, or what graph it carries on;\n"
    "False where another tracer is set.");
DOC(end_statement, "()",
    "End that; ([(file, line, function, times, items, idle)], held) of what\n"
    "was seen, and whether the path held all along.");
DOC(seen_statements, "()", "The same of what was seen so far, and go on.");

PyMethodDef ia_questions_methods[] = {
    {"diagnose", diagnose, METH_VARARGS, diagnose_doc},
    {"explain", explain, METH_VARARGS, explain_doc},
    {"instances", instances, METH_VARARGS, instances_doc},
    {"native_of_site", native_of_site, METH_O, native_of_site_doc},
    {"native_calls_of_site", native_calls_of_site, METH_O,
     native_calls_of_site_doc},
    {"native_of_object", native_of_object, METH_O, native_of_object_doc},
    {"visit", visit, METH_O, visit_doc},
    {"keep_paths", keep_paths, METH_VARARGS, keep_paths_doc},
    {"census", census, METH_O, census_doc},
    {"watch_statement", watch_statement, METH_VARARGS, watch_statement_doc},
    {"end_statement", end_statement, METH_NOARGS, end_statement_doc},
    {"seen_statements", seen_statements, METH_NOARGS, seen_statements_doc},
    {"_footprint", test_footprint, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};
