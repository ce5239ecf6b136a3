/* Names for the children of torch's modules: as Sequential, ModuleList and
 * their like number or name them. */

#include "../base/compat.h"
#include "../base/read.h"
#include "modules.h"

#include <stdio.h>
#include <stdlib.h>

/* Does it come from torch, and does no subclass have a [] of its own? */
static int
is_container(PyObject *module, const char *name)
{
    PyTypeObject *t = ia_base_named(Py_TYPE(module), name);
    PyObject *home = t ? ia_dict_value(ia_type_dict(t), "__module__") : NULL;
    return home != NULL && PyUnicode_CheckExact(home) &&
           PyUnicode_CompareWithASCIIString(
               home, "torch.nn.modules.container") == 0 &&
           ia_type_attribute(Py_TYPE(module), "__getitem__") ==
               ia_dict_value(ia_type_dict(t), "__getitem__");
}

static int
is_number(PyObject *key, Py_ssize_t n)
{
    char text[24];
    snprintf(text, sizeof text, "%zd", n);
    return PyUnicode_CheckExact(key) &&
           PyUnicode_CompareWithASCIIString(key, text) == 0;
}

/* The number that a container knows its child by, or -1. */
static Py_ssize_t
number_of(PyObject *module, PyObject *dict, PyObject *key)
{
    PyObject *k, *v;
    Py_ssize_t pos = 0, n = 0;
    if (is_container(module, "ParameterList")) {
        const char *text = ia_utf8(key);
        return text[0] >= '0' && text[0] <= '9' &&
                       is_number(key, strtol(text, NULL, 10))
                   ? strtol(text, NULL, 10)
                   : -1;
    }
    if (!is_container(module, "Sequential") &&
        !is_container(module, "ModuleList"))
        return -1;
    for (; dict != NULL && PyDict_Next(dict, &pos, &k, &v); n++)
        if (k == key)
            return is_number(key, n) ? n : -1;
    return -1;
}

static const char *
table_of(PyObject *module, PyObject *dict)
{
    static const char *const tables[] = {"_parameters", "_buffers"};
    for (int i = 0; i < 2; i++)
        if (ia_instance_attribute(module, tables[i]) == dict)
            return tables[i];
    return "_modules";
}

ia_reading
ia_name_module_child(PyObject *module, PyObject *dict, PyObject *key,
                     ia_edge_text *out)
{
    char text[200];
    Py_ssize_t n = number_of(module, dict, key);
    if (n >= 0)
        return ia_edge_set(out, "index", 1, "[%zd]", n);
    int python = ia_key_text(key, text, sizeof text);
    if (python && (is_container(module, "ModuleDict") ||
                   is_container(module, "ParameterDict")))
        return ia_edge_set(out, "key", 1, "[%s]", text);
    if (ia_is_name(key))
        return ia_edge_set(out, "attribute", 1, ".%s", ia_utf8(key));
    return ia_edge_set(out, "attribute", python, ".%s[%s]",
                       dict ? table_of(module, dict) : "__dict__", text);
}
