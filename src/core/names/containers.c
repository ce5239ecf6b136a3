/* What a reference is called: instances by attribute, mappings by key,
 * sequences by position, C types by their member tables.
 */

#include "../base/compat.h"
#include "../base/kinds.h"
#include "../base/read.h"
#include "containers.h"
#include "modules.h"

#include <stdio.h>
#include <string.h>
#include <structmember.h>

static const ia_reading plain = {IA_READ_PLAIN, NULL};

/* -- attributes ---------------------------------------------------------- */

/* Does reading an attribute run code that the class has of its own? */
static int
reads_strangely(PyTypeObject *type)
{
    PyObject *get = ia_type_attribute(type, "__getattribute__");
    return get != NULL && !Py_IS_TYPE(get, &PyWrapperDescr_Type);
}

static int
is_data_descriptor(PyObject *op)
{
    return op != NULL && Py_TYPE(op)->tp_descr_set != NULL;
}

/* Does a class give this value as it is, or what its __get__ makes of it? */
static int
is_given_as_it_is(PyObject *value)
{
    PyTypeObject *t = Py_TYPE(value);
    return t->tp_descr_get == NULL || PyFunction_Check(value) ||
           Py_IS_TYPE(value, &PyProperty_Type) ||
           Py_IS_TYPE(value, &PyClassMethod_Type) ||
           Py_IS_TYPE(value, &PyStaticMethod_Type) ||
           Py_IS_TYPE(value, &PyMethodDescr_Type) ||
           Py_IS_TYPE(value, &PyMemberDescr_Type) ||
           Py_IS_TYPE(value, &PyGetSetDescr_Type) ||
           Py_IS_TYPE(value, &PyWrapperDescr_Type) ||
           strcmp(t->tp_name, "cached_property") == 0 ||
           strcmp(t->tp_name, "functools._lru_cache_wrapper") == 0;
}

/* A class keeps its annotations under another name from 3.14 on, once they were
 * asked for. */
static const char *
name_of(PyObject *owner, PyObject *key)
{
    const char *name = ia_utf8(key);
    return owner != NULL && PyType_Check(owner) &&
                   strcmp(name, "__annotations_cache__") == 0
               ? "__annotations__"
               : name;
}

/* Would owner.name be this very value?  An owner that is not known is a
 * module or the like. */
static int
reads_back(PyObject *owner, const char *name, PyObject *value)
{
    if (owner == NULL)
        return 1;
    PyTypeObject *type = Py_TYPE(owner);
    /* A getter of type's, and yet it gives what lies there. */
    if (PyType_Check(owner) && strcmp(name, "__annotations__") == 0)
        return 1;
    if (reads_strangely(type) ||
        is_data_descriptor(ia_type_attribute(type, name)))
        return 0;
    return !PyType_Check(owner) || is_given_as_it_is(value);
}

static ia_reading
set_attribute(PyObject *owner, PyObject *key, PyObject *value,
              ia_edge_text *out)
{
    if (ia_is_name(key)) {
        const char *name = name_of(owner, key);
        return ia_edge_set(out, "attribute", reads_back(owner, name, value),
                           ".%s", name);
    }
    char text[200];
    int python = ia_key_text(key, text, sizeof text);
    return ia_edge_set(out, "attribute", python, ".__dict__[%s]", text);
}

static int
is_child_dict(PyObject *key)
{
    return PyUnicode_CheckExact(key) &&
           (PyUnicode_CompareWithASCIIString(key, "_modules") == 0 ||
            PyUnicode_CompareWithASCIIString(key, "_parameters") == 0 ||
            PyUnicode_CompareWithASCIIString(key, "_buffers") == 0);
}

ia_reading
ia_edge_attribute(PyObject *owner, PyObject *key, PyObject *value,
                  ia_edge_text *out)
{
    int module = owner != NULL && ia_kind_of(Py_TYPE(owner)) == IA_KIND_MODULE;
    if (module && PyDict_Check(value) && is_child_dict(key))
        return ia_edge_pass(out, IA_READ_CHILDREN, owner);
    if (module && !ia_is_name(key))
        return ia_name_module_child(owner, NULL, key, out);
    set_attribute(owner, key, value, out);
    /* A class gives the function in a staticmethod. */
    if (owner != NULL && PyType_Check(owner) &&
        Py_IS_TYPE(value, &PyStaticMethod_Type))
        return (ia_reading){IA_READ_CONTENTS, NULL};
    return plain;
}

static int
name_instance(PyObject *op, PyObject *child, ia_edge_text *out,
              ia_reading *next)
{
    ia_inline_values v;
    if (ia_get_inline_values(op, &v)) {
        for (Py_ssize_t i = 0; i < v.count; i++) {
            if (v.values[i] != child || ia_inline_name(&v, i) == NULL)
                continue;
            *next = ia_edge_attribute(op, ia_inline_name(&v, i), child, out);
            return 1;
        }
    }
    if (ia_get_instance_dict(op) == child) {
        *next = ia_edge_pass(out, IA_READ_ATTRIBUTES, op);
        return 1;
    }
    return 0;
}

/* Slots of Python classes and object members of C types: both are in the
 * member tables along the MRO. */
static int
name_in_members(PyTypeObject *t, PyObject *op, PyObject *child,
                ia_edge_text *out)
{
    for (PyMemberDef *m = t->tp_members; m != NULL && m->name != NULL; m++) {
        if (m->type != T_OBJECT && m->type != T_OBJECT_EX)
            continue;
        if (*(PyObject **)((char *)op + m->offset) != child)
            continue;
        PyObject *found = ia_type_attribute(Py_TYPE(op), m->name);
        int python = found != NULL && Py_IS_TYPE(found, &PyMemberDescr_Type) &&
                     ((PyMemberDescrObject *)found)->d_member == m &&
                     !reads_strangely(Py_TYPE(op));
        ia_edge_set(out, "attribute", python, ".%s", m->name);
        return 1;
    }
    return 0;
}

static int
name_member(PyObject *op, PyObject *child, ia_edge_text *out)
{
    PyTypeObject *t;
    for (Py_ssize_t i = 0; (t = ia_mro_item(Py_TYPE(op), i)) != NULL; i++)
        if (name_in_members(t, op, child, out))
            return 1;
    return 0;
}

/* -- mappings ------------------------------------------------------------ */

static ia_reading
name_key(PyObject *dict, PyObject *child, ia_edge_text *out)
{
    char text[240];
    PyObject *key, *value;
    Py_ssize_t pos = 0;
    /* A subclass that has its own [] may give anything. */
    int exact = Py_TYPE(dict)->tp_as_mapping->mp_subscript ==
                PyDict_Type.tp_as_mapping->mp_subscript;
    while (PyDict_Next(dict, &pos, &key, &value)) {
        if (value == child) {
            int python = ia_key_text(key, text, sizeof text);
            return ia_edge_set(out, "key", python && exact, "[%s]", text);
        }
        if (key == child) {
            ia_ref_type_name((uintptr_t)key, text, sizeof text);
            return ia_edge_set(out, "dict key", 0, ".<key: %s>", text);
        }
    }
    return plain;
}

static int
is_private(PyObject *key)
{
    return PyUnicode_CheckExact(key) && PyUnicode_GET_LENGTH(key) > 0 &&
           PyUnicode_READ_CHAR(key, 0) == '_';
}

/* The key of a child among attributes, a public name before a private one. */
static PyObject *
attribute_key(PyObject *dict, PyObject *child)
{
    PyObject *key, *value, *found = NULL;
    Py_ssize_t pos = 0;
    while (PyDict_Next(dict, &pos, &key, &value)) {
        if (value != child)
            continue;
        if (!is_private(key))
            return key;
        if (found == NULL)
            found = key;
    }
    return found;
}

static ia_reading
name_in_dict(PyObject *dict, PyObject *child, ia_reading reading,
             ia_edge_text *out)
{
    PyObject *key = NULL;
    if (reading.how == IA_READ_ATTRIBUTES || reading.how == IA_READ_CHILDREN)
        key = attribute_key(dict, child);
    if (key == NULL)
        return name_key(dict, child, out);
    return reading.how == IA_READ_CHILDREN
               ? ia_name_module_child(reading.owner, dict, key, out)
               : ia_edge_attribute(reading.owner, key, child, out);
}

/* -- sequences ----------------------------------------------------------- */

static ia_reading
name_index(PyObject *op, PyObject **items, Py_ssize_t n, PyObject *child,
           const PyTypeObject *base, ia_edge_text *out)
{
    int exact = Py_TYPE(op)->tp_as_mapping->mp_subscript ==
                base->tp_as_mapping->mp_subscript;
    for (Py_ssize_t i = 0; i < n; i++)
        if (items[i] == child)
            return ia_edge_set(out, "index", exact, "[%zd]", i);
    return plain;
}

/* The name of a namedtuple's i-th field, or NULL. */
static PyObject *
field_name(PyObject *op, Py_ssize_t i)
{
    PyObject *fields = PyTuple_CheckExact(op)
                           ? NULL
                           : ia_type_attribute(Py_TYPE(op), "_fields");
    if (fields == NULL || !PyTuple_CheckExact(fields) ||
        i >= PyTuple_GET_SIZE(fields))
        return NULL;
    PyObject *name = PyTuple_GET_ITEM(fields, i);
    PyObject *getter = ia_is_name(name)
                           ? ia_type_attribute(Py_TYPE(op), ia_utf8(name))
                           : NULL;
    const char *type = getter ? Py_TYPE(getter)->tp_name : "";
    return strcmp(type + (type[0] == '_'), "collections._tuplegetter") == 0
               ? name
               : NULL;
}

static ia_reading
name_in_tuple(PyObject *op, PyObject *child, ia_edge_text *out)
{
    PyObject **items = ((PyTupleObject *)op)->ob_item;
    Py_ssize_t n = PyTuple_GET_SIZE(op);
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *name = items[i] == child ? field_name(op, i) : NULL;
        if (name != NULL)
            return ia_edge_set(out, "attribute", !reads_strangely(Py_TYPE(op)),
                               ".%s", ia_utf8(name));
    }
    return name_index(op, items, n, child, &PyTuple_Type, out);
}

/* -- all together -------------------------------------------------------- */

static ia_reading
name_container(PyObject *op, PyObject *child, ia_reading reading,
               ia_edge_text *out)
{
    if (PyDict_Check(op))
        return name_in_dict(op, child, reading, out);
    if (PyList_Check(op))
        return name_index(op, ((PyListObject *)op)->ob_item,
                          PyList_GET_SIZE(op), child, &PyList_Type, out);
    if (PyTuple_Check(op))
        return name_in_tuple(op, child, out);
    if (PyModule_Check(op) && PyModule_GetDict(op) == child)
        return ia_edge_pass(out, IA_READ_ATTRIBUTES, NULL);
    if (PyAnySet_Check(op))
        return ia_edge_set(out, "member", 0, ".<member>");
    return plain;
}

/* A deque visits its items in order; a subclass has attributes besides. */
static int
name_deque(PyObject *op, PyObject *child, ia_edge_text *out)
{
    PyTypeObject *t = ia_base_named(Py_TYPE(op), "collections.deque");
    Py_ssize_t at =
        t ? ia_visit_position(t->tp_traverse, op, child, NULL, NULL) : -1;
    int exact = t && Py_TYPE(op)->tp_as_sequence->sq_item ==
                         t->tp_as_sequence->sq_item;
    if (at >= 0)
        ia_edge_set(out, "index", exact, "[%zd]", at);
    return at >= 0;
}

int
ia_name_in_container(PyObject *op, PyObject *child, ia_reading reading,
                     ia_edge_text *out, ia_reading *next)
{
    *next = name_container(op, child, reading, out);
    return out->text[0] || next->how != IA_READ_PLAIN ||
           name_instance(op, child, out, next) ||
           name_member(op, child, out) || name_deque(op, child, out);
}
