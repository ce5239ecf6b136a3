/* Texts of a path's steps: literals for keys, names of types. */

#include "../base/compat.h"
#include "../base/build.h"
#include "../base/read.h"
#include "text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

ia_reading
ia_edge_set(ia_edge_text *out, const char *kind, int python,
            const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length = vsnprintf(out->text, sizeof out->text, format, args);
    va_end(args);
    out->kind = kind;
    out->python = python && length < (int)sizeof out->text;
    return (ia_reading){IA_READ_PLAIN, NULL};
}

ia_reading
ia_edge_pass(ia_edge_text *out, ia_how how, PyObject *owner)
{
    out->text[0] = 0;
    return (ia_reading){how, owner};
}

#define MAX_KEY_TEXT 72
#define MAX_KEY_ITEMS 6
#define MAX_KEY_DIGITS 8

static int
is_literal(PyObject *key, int depth)
{
    if (PyUnicode_CheckExact(key))
        return PyUnicode_GET_LENGTH(key) <= MAX_KEY_TEXT;
    if (PyBytes_CheckExact(key))
        return PyBytes_GET_SIZE(key) <= MAX_KEY_TEXT;
    if (PyTuple_CheckExact(key) && depth < 3) {
        Py_ssize_t n = PyTuple_GET_SIZE(key);
        for (Py_ssize_t i = 0; i < n && n <= MAX_KEY_ITEMS; i++)
            if (!is_literal(PyTuple_GET_ITEM(key, i), depth + 1))
                return 0;
        return n <= MAX_KEY_ITEMS;
    }
    if (PyLong_CheckExact(key))
        return ia_int_digits(key) < MAX_KEY_DIGITS;
    if (PyFloat_CheckExact(key))
        return isfinite(PyFloat_AS_DOUBLE(key));
    return key == Py_None || PyBool_Check(key);
}

static void
set_weak_key(PyObject *key, char *buf, size_t size)
{
    PyObject *op = ((PyWeakReference *)key)->wr_object;
    char type[100];
    if (op == NULL || op == Py_None) {
        snprintf(buf, size, "<dead weak key>");
        return;
    }
    ia_ref_type_name((uintptr_t)op, type, sizeof type);
    snprintf(buf, size, "<weak key of type %s>", type);
}

/* The member's name where the key is one of an enum.Enum; 0 where not. */
static int
set_member(PyObject *key, char *buf, size_t size)
{
    char type[100];
    if (ia_base_named(Py_TYPE(Py_TYPE(key)), "EnumType") == NULL)
        return 0;
    PyObject *name = ia_instance_attribute(key, "_name_");
    if (name == NULL || !ia_is_name(name))
        return 0;
    ia_ref_type_name((uintptr_t)key, type, sizeof type);
    snprintf(buf, size, "<%s.%s>", type, ia_utf8(name));
    return 1;
}

int
ia_key_text(PyObject *key, char *buf, size_t size)
{
    if (is_literal(key, 0)) {
        PyObject *text = PyObject_Repr(key); /* exact built-in types only */
        Py_ssize_t room = (Py_ssize_t)size / 4;
        if (text != NULL && PyUnicode_GET_LENGTH(text) < room) {
            snprintf(buf, size, "%s", ia_utf8(text));
            Py_DECREF(text);
            return 1;
        }
        Py_XDECREF(text);
        PyErr_Clear();
    }
    if (PyWeakref_Check(key)) {
        set_weak_key(key, buf, size);
        return 0;
    }
    if (set_member(key, buf, size))
        return 0;
    char type[100];
    ia_ref_type_name((uintptr_t)key, type, sizeof type);
    snprintf(buf, size, "<key of type %s>", type);
    return 0;
}

PyObject *
ia_type_build(uintptr_t ref)
{
    char type[128];
    ia_ref_type_name(ref, type, sizeof type);
    return ia_str(type);
}
