/* The interpreter's own frames, behind an opaque pointer.
 *
 * Nothing here creates a frame object, touches a reference count or raises.
 * A thread may read its own chain without the GIL while it is inside a C
 * call; the chains of other threads may be read with the GIL only.
 */
#ifndef IA_FRAMES_H
#define IA_FRAMES_H

#include <Python.h>
#include <stdatomic.h>
#include <stdint.h>

typedef struct _PyInterpreterFrame ia_frame;

/* The innermost complete frame of a thread, or NULL. */
ia_frame *ia_frame_top(PyThreadState *);
/* The next complete frame outwards, or NULL. */
ia_frame *ia_frame_back(ia_frame *);

/* The calls that an exception has ended, and whose frames it keeps: while the
 * report on a program that it ends is made they stand for what ran.  NULL:
 * none any more.  0, or -1 when memory is short. */
int ia_frames_set_ended(PyObject *error);
/* The i-th of them, the outermost first, or NULL behind the last. */
ia_frame *ia_frame_ended(uint32_t i);

/* All complete frames of all threads, thread by thread, and then those of
 * calls that have ended so; {0} to begin with. */
typedef struct {
    PyThreadState *thread;
    ia_frame *frame;
    uint32_t ended;
} ia_all_frames;
/* The next of them, or NULL behind the last.  Needs the GIL. */
ia_frame *ia_frame_next(ia_all_frames *);

PyCodeObject *ia_frame_code(ia_frame *);   /* borrowed */
int ia_frame_instr(ia_frame *);            /* byte offset for Addr2Line */
PyObject *ia_frame_locals(ia_frame *);     /* borrowed or NULL */
PyObject *ia_frame_function(ia_frame *);   /* borrowed or NULL */
PyObject *ia_frame_object(ia_frame *);     /* borrowed or NULL */

/* Of a generator or a coroutine: it is there between its calls as well. */
int ia_frame_is_generator(ia_frame *);
PyObject *ia_frame_generator(ia_frame *); /* borrowed, or NULL of no such */

/* Is this code running on the calling thread's stack? */
int ia_frame_runs(const void *code);

/* Is it in a call f(*args, **names) for which CPython holds the arguments in
 * an array of its own, besides the tuple? */
int ia_frame_calls_with_array(ia_frame *);

/* Fast locals, cells and free variables first, then as much of the evaluation
 * stack as the frame has written back. */
int ia_frame_slots(ia_frame *);
PyObject *ia_frame_slot(ia_frame *, int);  /* borrowed or NULL */
/* The evaluation stack that a frame has not written back because it is in a
 * call of C: how many words, and where they are.  They may be what is left of
 * older values: to be compared, never followed.  0 where there is none, or
 * none that can be found. */
int ia_frame_hidden_stack(ia_frame *, PyObject *const **words);
/* Name of slot i, borrowed; NULL for the evaluation stack.  *cell is set when
 * the slot holds a cell rather than the value. */
PyObject *ia_code_slot_name(PyCodeObject *, int, int *cell);

/* Is it a generator, coroutine or async generator?  Nothing can be of a class
 * below theirs. */
static inline int
ia_is_generator(PyObject *op)
{
    return PyGen_CheckExact(op) || PyCoro_CheckExact(op) ||
           PyAsyncGen_CheckExact(op);
}
/* The frame inside one, or NULL when it has finished.  *running is set when it
 * is on some thread's chain. */
ia_frame *ia_generator_frame(PyObject *, int *running);
/* The frame behind a frame object, or NULL. */
ia_frame *ia_frame_of_object(PyObject *);

/* Line of a byte offset; no allocation. */
int ia_code_line(PyCodeObject *, int instr);

/* Tells the code at an address from code that lay there before, while code is
 * watched: how much has ended, counted by address.  Addresses share counters,
 * so the end of one makes one in IA_CODE_LIVES of the others look new too. */
#define IA_CODE_LIVES 1024
extern atomic_uint ia_code_ends[IA_CODE_LIVES];
/* All of them; it changes as well where ends went unseen. */
extern atomic_uint ia_code_all_ends;

static inline uint32_t
ia_code_life(const void *code)
{
    return atomic_load_explicit(
        &ia_code_ends[((uintptr_t)code >> 5) % IA_CODE_LIVES],
        memory_order_relaxed);
}

/* Needs the GIL. */
void ia_code_watch(int on);

/* Innermost frames that tell one stack from another.  A Trainer's forward is
 * 40 to 60 deep; deeper recursion is cut at the outer end. */
#define IA_MAX_FRAMES 96

/* What is read of one frame on the hot path. */
typedef struct {
    void *code; /* borrowed, valid while the frame is on the chain */
    int instr;
} ia_raw_frame;

/* A frame of a captured stack, and what tells that it is where it was. */
typedef struct {
    ia_raw_frame raw;
    const void *frame;
    const void *at; /* its instruction */
    uint64_t hash;  /* of this frame and all outside of it */
} ia_seen_frame;

/* The last stack that a thread was asked for.  It belongs to the thread, and
 * is good until the thread's next capture. */
typedef struct {
    uint64_t hash;
    int count;
    uint32_t stack; /* sites.h: its id, 0 = not known yet */
    uint32_t epoch; /* of that id */
    uint32_t site;  /* of that stack */
    uint32_t ends;  /* of code, when it was captured */
    ia_seen_frame frames[IA_MAX_FRAMES]; /* the outermost first */
} ia_raw_stack;

/* The i-th from the innermost. */
static inline const ia_raw_frame *
ia_raw_frame_at(const ia_raw_stack *raw, int i)
{
    return &raw->frames[raw->count - 1 - i].raw;
}

/* Reads the calling thread's chain.  Frames that are as they were at the last
 * call are compared, not read anew: births side by side share their callers. */
ia_raw_stack *ia_stack_capture(void);
/* Is the calling thread's innermost frame where it was then?  Needs the GIL. */
int ia_stack_is_at_its_end(void);

#endif /* IA_FRAMES_H */
