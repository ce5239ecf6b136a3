/* IPython's namespace: one name for each result. */

#include "../base/compat.h"
#include "../base/ptrmap.h"
#include "../base/read.h"
#include "notebook.h"

#include <string.h>

static PyObject *
shell_of(PyObject *namespace)
{
    PyObject *method = ia_dict_value(namespace, "get_ipython");
    return method && PyMethod_Check(method) ? PyMethod_GET_SELF(method)
                                            : NULL;
}

void
ia_notebook_find(ia_notebook *n, PyObject *namespace)
{
    PyObject *out = ia_dict_value(namespace, "_oh");
    if (out == NULL || !PyDict_Check(out))
        return;
    *n = (ia_notebook){.out = out, .names = namespace};
    PyObject *shell = shell_of(namespace);
    if (shell != NULL)
        n->hidden = ia_instance_attribute(shell, "user_ns_hidden");
    if (n->hidden != NULL && !PyDict_Check(n->hidden))
        n->hidden = NULL;
}

/* _, __, ___ and _12. */
static int
is_second_name(PyObject *key)
{
    if (!PyUnicode_CheckExact(key) || !PyUnicode_IS_ASCII(key))
        return 0;
    const char *text = (const char *)PyUnicode_DATA(key);
    size_t marks = strspn(text, "_");
    size_t digits = strspn(text + marks, "0123456789");
    if (text[marks + digits] != '\0')
        return 0;
    return digits > 0 ? marks == 1 : marks >= 1 && marks <= 3;
}

int
ia_notebook_traverse(const ia_notebook *n, PyObject *dict, visitproc visit,
                     void *arg)
{
    ia_ptrmap results = {0};
    PyObject *key, *value;
    Py_ssize_t pos = 0;
    int stop = 0;
    while (PyDict_Next(n->out, &pos, &key, &value))
        if (ia_ptrmap_set(&results, (uintptr_t)value, 0) < 0)
            break; /* short of memory: some stay doubled */
    pos = 0;
    while (!stop && PyDict_Next(dict, &pos, &key, &value)) {
        stop = visit(key, arg);
        if (stop || (is_second_name(key) &&
                     ia_ptrmap_get(&results, (uintptr_t)value) !=
                         IA_PTRMAP_NONE))
            continue;
        stop = visit(value, arg);
    }
    ia_ptrmap_free(&results);
    return stop;
}
