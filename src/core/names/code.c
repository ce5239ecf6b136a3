/* Names for what functions, frames, generators, exceptions and classes hold:
 * by the variable's name where there is one. */

#include "../base/compat.h"
#include "../base/read.h"
#include "code.h"
#include "containers.h"

#include "../heap/loops.h"

#include <stdio.h>
#include <string.h>

static const ia_reading plain = {IA_READ_PLAIN, NULL};

/* -- functions ----------------------------------------------------------- */

/* Nothing where the step shows nothing: then the reading tells. */
static ia_reading
name_in_function(PyFunctionObject *f, PyObject *child, ia_edge_text *out)
{
    if (child == f->func_closure)
        return ia_edge_pass(out, IA_READ_CLOSURE, (PyObject *)f);
    if (child == f->func_dict)
        return ia_edge_pass(out, IA_READ_ATTRIBUTES, (PyObject *)f);
    if (child == f->func_defaults)
        return ia_edge_set(out, "default", 1, ".__defaults__");
    if (child == f->func_kwdefaults)
        return ia_edge_set(out, "default", 1, ".__kwdefaults__");
    if (child == f->func_globals)
        return ia_edge_set(out, "globals", 1, ".__globals__");
    if (child != f->func_annotations)
        return plain;
    /* Until somebody asks, they may be a flat tuple. */
    ia_edge_set(out, "annotation", 1, ".__annotations__");
    return (ia_reading){
        PyTuple_CheckExact(child) ? IA_READ_PAIRS : IA_READ_PLAIN, NULL};
}

static ia_reading
name_in_closure(PyObject *tuple, PyObject *child, PyObject *owner,
                ia_edge_text *out)
{
    PyCodeObject *code =
        (PyCodeObject *)((PyFunctionObject *)owner)->func_code;
    int first = code->co_nlocalsplus - code->co_nfreevars, cell;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++) {
        if (PyTuple_GET_ITEM(tuple, i) != child)
            continue;
        PyObject *name = ia_code_slot_name(code, first + (int)i, &cell);
        ia_edge_set(out, "closure", 0, ".<closure>.%s", ia_utf8(name));
        return (ia_reading){IA_READ_CONTENTS, NULL};
    }
    return plain;
}

static ia_reading
name_in_pairs(PyObject *tuple, PyObject *child, ia_edge_text *out)
{
    char text[240];
    for (Py_ssize_t i = 1; i < PyTuple_GET_SIZE(tuple); i += 2) {
        if (PyTuple_GET_ITEM(tuple, i) != child)
            continue;
        int python =
            ia_key_text(PyTuple_GET_ITEM(tuple, i - 1), text, sizeof text);
        return ia_edge_set(out, "key", python, "[%s]", text);
    }
    return plain;
}

/* -- frames -------------------------------------------------------------- */

/* Whether it is what a for loop around a frame goes through: of the iterators
 * on the stack theirs lie lowest. */
static int
is_gone_through(ia_frame *frame, int slot)
{
    int first = ia_frame_code(frame)->co_nlocalsplus, iterators = 0;
    for (int i = first; i <= slot; i++) {
        PyObject *op = ia_frame_slot(frame, i);
        iterators += op != NULL && Py_TYPE(op)->tp_iternext != NULL;
    }
    return slot >= first && iterators <= ia_loops_through(frame);
}

/* On the evaluation stack, or what a comprehension goes through. */
static ia_reading
name_temporary(ia_frame *frame, int slot, ia_edge_text *out)
{
    PyObject *child = ia_frame_slot(frame, slot);
    if (ia_is_plain_iterator(child)) {
        ia_edge_set(out, "temporary", 0, ".<loop>");
        return (ia_reading){IA_READ_CONTENTS, NULL};
    }
    int loops = Py_TYPE(child)->tp_iternext != NULL &&
                is_gone_through(frame, slot);
    return ia_edge_set(out, "temporary", 0,
                       loops ? ".<loop>" : ".<temporary>");
}

ia_reading
ia_name_local(ia_frame *frame, PyObject *child, int behind, ia_edge_text *out)
{
    PyCodeObject *code = ia_frame_code(frame);
    int slots = ia_frame_slots(frame), cell = 0;
    if (child == ia_frame_locals(frame))
        return ia_edge_pass(out, IA_READ_ATTRIBUTES, NULL);
    for (int i = 0; i < slots; i++) {
        if (ia_frame_slot(frame, i) != child)
            continue;
        PyObject *name = ia_code_slot_name(code, i, &cell);
        /* ".0" is what a comprehension goes through. */
        if (name == NULL || ia_utf8(name)[0] == '.')
            return name_temporary(frame, i, out);
        ia_edge_set(out, "local", 0, behind ? ".<locals>.%s" : ".%s",
                    ia_utf8(name));
        return (ia_reading){cell && PyCell_Check(child) ? IA_READ_CONTENTS
                                                        : IA_READ_PLAIN,
                            NULL};
    }
    if (child == ia_frame_function(frame))
        return ia_edge_set(out, "function", 0, ".<function>");
    if (child == ia_frame_object(frame))
        return ia_edge_set(out, "frame object", 0, ".<frame>");
    return plain;
}

static ia_reading
name_in_frame_object(PyObject *op, PyObject *child, ia_edge_text *out)
{
    static const char prefix[] = ".<locals>.";
    ia_frame *frame = ia_frame_of_object(op);
    ia_reading next = frame ? ia_name_local(frame, child, 1, out) : plain;
    if (out->text[0] == 0 && PyFrame_Check(child))
        return ia_edge_set(out, "frame object", 1, ".f_back");
    if (strncmp(out->text, prefix, sizeof prefix - 1) != 0)
        return next;
    char name[240];
    snprintf(name, sizeof name, "%s", out->text + sizeof prefix - 1);
    ia_edge_set(out, "local", 1, ".f_locals['%s']", name);
    return next;
}

/* What it waits for is an attribute; these getters read no more than the
 * frame. */
static ia_reading
name_in_generator(PyObject *op, PyObject *child, ia_edge_text *out)
{
    static const char *const waits[] = {"gi_yieldfrom", "cr_await",
                                        "ag_await"};
    int running = 0;
    ia_frame *frame = ia_generator_frame(op, &running);
    if (frame == NULL)
        return plain;
    for (int i = 0; !running && i < 3; i++)
        if (ia_getter_gives(Py_TYPE(op), op, waits[i], child))
            return ia_edge_set(out, "await", 1, ".%s", waits[i]);
    return ia_name_local(frame, child, 1, out);
}

/* -- exceptions ---------------------------------------------------------- */

static ia_reading
name_in_exception(PyObject *op, PyObject *child, ia_edge_text *out)
{
    PyBaseExceptionObject *e = (PyBaseExceptionObject *)op;
    if (child == e->traceback)
        return ia_edge_set(out, "traceback", 1, ".__traceback__");
    if (child == e->context)
        return ia_edge_set(out, "attribute", 1, ".__context__");
    if (child == e->cause)
        return ia_edge_set(out, "attribute", 1, ".__cause__");
    if (child == e->args)
        return ia_edge_set(out, "attribute", 1, ".args");
    if (child == e->dict)
        return ia_edge_pass(out, IA_READ_ATTRIBUTES, op);
    return plain;
}

static ia_reading
name_in_traceback(PyObject *op, PyObject *child, ia_edge_text *out)
{
    PyTracebackObject *tb = (PyTracebackObject *)op;
    return ia_edge_set(out, "traceback", 1,
                       child == (PyObject *)tb->tb_next ? ".tb_next"
                                                        : ".tb_frame");
}

/* -- classes and methods ------------------------------------------------- */

static ia_reading
name_in_type(PyObject *op, PyObject *child, ia_edge_text *out)
{
    PyTypeObject *type = (PyTypeObject *)op;
    if (child == ia_type_dict(type))
        return ia_edge_pass(out, IA_READ_ATTRIBUTES, op);
    if (child == type->tp_mro)
        return ia_edge_set(out, "attribute", 1, ".__mro__");
    if (child == type->tp_bases)
        return ia_edge_set(out, "attribute", 1, ".__bases__");
    if (child == (PyObject *)type->tp_base)
        return ia_edge_set(out, "attribute", 1, ".__base__");
    return plain;
}

static ia_reading
name_in_builtin_method(PyObject *op, PyObject *child, ia_edge_text *out)
{
    return child == ((PyCFunctionObject *)op)->m_self
               ? ia_edge_set(out, "attribute", 1, ".__self__")
               : plain;
}

static ia_reading
name(PyObject *op, PyObject *child, ia_reading reading, ia_edge_text *out)
{
    if (PyTuple_Check(op) && reading.how == IA_READ_CLOSURE)
        return name_in_closure(op, child, reading.owner, out);
    if (PyTuple_Check(op) && reading.how == IA_READ_PAIRS)
        return name_in_pairs(op, child, out);
    if (PyFunction_Check(op))
        return name_in_function((PyFunctionObject *)op, child, out);
    if (PyCell_Check(op))
        return ia_edge_set(out, "cell", 1, ".cell_contents");
    if (PyFrame_Check(op))
        return name_in_frame_object(op, child, out);
    if (ia_is_generator(op))
        return name_in_generator(op, child, out);
    if (PyExceptionInstance_Check(op))
        return name_in_exception(op, child, out);
    if (PyTraceBack_Check(op))
        return name_in_traceback(op, child, out);
    if (PyType_Check(op))
        return name_in_type(op, child, out);
    if (PyCFunction_Check(op))
        return name_in_builtin_method(op, child, out);
    /* A proxy would look the name up in what it stands for. */
    if (PyWeakref_Check(op) && child == ((PyWeakReference *)op)->wr_callback)
        return ia_edge_set(out, "callback", PyWeakref_CheckRef(op),
                           ".__callback__");
    return plain;
}

int
ia_name_in_code(PyObject *op, PyObject *child, ia_reading reading,
                ia_edge_text *out, ia_reading *next)
{
    *next = name(op, child, reading, out);
    return out->text[0] != 0 || next->how != IA_READ_PLAIN;
}
