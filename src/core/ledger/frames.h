/* The interpreter's own frames, behind an opaque pointer.
 *
 * Nothing here creates a frame object, touches a reference count or raises.
 * A thread may read its own chain without the GIL while it is inside a C
 * call; the chains of other threads may be read with the GIL only.
 */
#ifndef IA_FRAMES_H
#define IA_FRAMES_H

#include <Python.h>
#include <stdint.h>

typedef struct _PyInterpreterFrame ia_frame;

/* The innermost complete frame of a thread, or NULL. */
ia_frame *ia_frame_top(PyThreadState *);
/* The next complete frame outwards, or NULL. */
ia_frame *ia_frame_back(ia_frame *);

PyCodeObject *ia_frame_code(ia_frame *);   /* borrowed */
int ia_frame_instr(ia_frame *);            /* byte offset for Addr2Line */
PyObject *ia_frame_locals(ia_frame *);     /* borrowed or NULL */
PyObject *ia_frame_function(ia_frame *);   /* borrowed or NULL */
PyObject *ia_frame_object(ia_frame *);     /* borrowed or NULL */

/* Is this code running on the calling thread's stack? */
int ia_frame_runs(const void *code);

/* Is it in a call f(*args, **names) for which CPython holds the arguments in
 * an array of its own, besides the tuple? */
int ia_frame_calls_with_array(ia_frame *);

/* Fast locals, cells and free variables first, then as much of the evaluation
 * stack as the frame has written back. */
int ia_frame_slots(ia_frame *);
PyObject *ia_frame_slot(ia_frame *, int);  /* borrowed or NULL */
/* Name of slot i, borrowed; NULL for the evaluation stack.  *cell is set when
 * the slot holds a cell rather than the value. */
PyObject *ia_code_slot_name(PyCodeObject *, int, int *cell);

/* The frame inside a generator, coroutine or async generator, or NULL when it
 * has finished.  *running is set when it is on some thread's chain. */
ia_frame *ia_generator_frame(PyObject *, int *running);
/* The frame behind a frame object, or NULL. */
ia_frame *ia_frame_of_object(PyObject *);

/* Line of a byte offset; no allocation. */
int ia_code_line(PyCodeObject *, int instr);

#endif /* IA_FRAMES_H */
