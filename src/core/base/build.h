/* Python values put together. */
#ifndef IA_BUILD_H
#define IA_BUILD_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <string.h>

/* A str of what ia_text() gives, or of UTF-8 that the end of a buffer may have
 * cut within a character. */
static inline PyObject *
ia_str(const char *text)
{
    Py_ssize_t length = (Py_ssize_t)strlen(text);
    PyObject *made = PyUnicode_DecodeUTF8(text, length, "surrogatepass");
    if (made != NULL || !PyErr_ExceptionMatches(PyExc_UnicodeDecodeError))
        return made;
    PyErr_Clear();
    return PyUnicode_DecodeUTF8(text, length, "replace");
}

/* Appends what was just built, or NULL where that failed; takes it over.  A
 * failure clears the list, with an exception set. */
static inline void
ia_list_add(PyObject **list, PyObject *item)
{
    if (item == NULL || PyList_Append(*list, item) < 0)
        Py_CLEAR(*list);
    Py_XDECREF(item);
}

/* The same under a key of a dict, which is taken over too. */
static inline void
ia_dict_add(PyObject **dict, PyObject *key, PyObject *value)
{
    if (key == NULL || value == NULL ||
        PyDict_SetItem(*dict, key, value) < 0)
        Py_CLEAR(*dict);
    Py_XDECREF(key);
    Py_XDECREF(value);
}

#endif /* IA_BUILD_H */
