/* UTF-8 of a str, without the API that makes it. */

#include "compat.h"
#include "utf8.h"

const char *
ia_text_copy(PyObject *op, char *buf, size_t size)
{
    size_t n = 0;
    if (op == NULL || !PyUnicode_Check(op))
        return "?";
    Py_ssize_t length = PyUnicode_GET_LENGTH(op);
    int kind = PyUnicode_KIND(op);
    const void *data = PyUnicode_DATA(op);
    for (Py_ssize_t i = 0; i < length && n + 5 < size; i++) {
        Py_UCS4 c = PyUnicode_READ(kind, data, i);
        if (c < 0x80) {
            buf[n++] = (char)c;
        } else if (c < 0x800) {
            buf[n++] = (char)(0xC0 | c >> 6);
            buf[n++] = (char)(0x80 | (c & 0x3F));
        } else if (c < 0x10000) {
            buf[n++] = (char)(0xE0 | c >> 12);
            buf[n++] = (char)(0x80 | (c >> 6 & 0x3F));
            buf[n++] = (char)(0x80 | (c & 0x3F));
        } else {
            buf[n++] = (char)(0xF0 | c >> 18);
            buf[n++] = (char)(0x80 | (c >> 12 & 0x3F));
            buf[n++] = (char)(0x80 | (c >> 6 & 0x3F));
            buf[n++] = (char)(0x80 | (c & 0x3F));
        }
    }
    buf[n] = 0;
    return buf;
}
