/* Reads _PyInterpreterFrame of CPython 3.11 to 3.14 without creating objects.
 * The only file but compat.h that knows one CPython version from another. */

#include "../base/compat.h"
#include "internal/pycore_frame.h"
#include "internal/pycore_code.h"
#include "../base/array.h"
#include "../base/ptrmap.h"
#include "../base/seldom.h"
#include "../base/thread.h"
#include "frames.h"

#include <pthread.h>
#include <stdlib.h>

#if PY_VERSION_HEX < 0x030C0000
#include <opcode.h>
#endif

#if PY_VERSION_HEX >= 0x030E0000
#include "internal/pycore_stackref.h"
#endif

static int
is_complete(_PyInterpreterFrame *f)
{
#if PY_VERSION_HEX >= 0x030C0000
    if (f->owner > FRAME_OWNED_BY_FRAME_OBJECT)
        return 0; /* a shim between two C stacks: it has no code */
#endif
#if PY_VERSION_HEX >= 0x030D0000
    PyCodeObject *code = ia_frame_code(f);
    return code != NULL &&
           (f->owner == FRAME_OWNED_BY_GENERATOR ||
            f->instr_ptr >= _PyCode_CODE(code) + code->_co_firsttraceable);
#else
    return f->owner == FRAME_OWNED_BY_GENERATOR ||
           f->prev_instr >=
               _PyCode_CODE(f->f_code) + f->f_code->_co_firsttraceable;
#endif
}

static ia_frame *
first_complete(_PyInterpreterFrame *f)
{
    while (f != NULL && !is_complete(f))
        f = f->previous;
    return f;
}

ia_frame *
ia_frame_top(PyThreadState *tstate)
{
#if PY_VERSION_HEX >= 0x030D0000
    return first_complete(tstate->current_frame);
#else
    return tstate->cframe ? first_complete(tstate->cframe->current_frame)
                          : NULL;
#endif
}

/* The frame of a call that is over has left its thread's chain and lies in its
 * object, which knows the caller's. */
static int
is_ended(const ia_frame *f)
{
    return f->owner == FRAME_OWNED_BY_FRAME_OBJECT;
}

static PyFrameObject *
object_around(ia_frame *f)
{
    size_t before = offsetof(PyFrameObject, _f_frame_data);
    return (PyFrameObject *)((char *)f - before);
}

ia_frame *
ia_frame_back(ia_frame *f)
{
    if (!is_ended(f))
        return first_complete(f->previous);
    PyObject *back = (PyObject *)object_around(f)->f_back;
    return back != NULL ? ia_frame_of_object(back) : NULL;
}

ia_frame *
ia_frame_next(ia_all_frames *all)
{
    if (all->ended > 0)
        return ia_frame_ended(all->ended++);
    if (all->frame != NULL)
        all->frame = ia_frame_back(all->frame);
    while (all->frame == NULL) {
        all->thread = all->thread != NULL
                          ? PyThreadState_Next(all->thread)
                          : PyInterpreterState_ThreadHead(
                                PyThreadState_Get()->interp);
        if (all->thread == NULL)
            return ia_frame_ended(all->ended++);
        if (ia_has_frames(all->thread))
            all->frame = ia_frame_top(all->thread);
    }
    return all->frame;
}

/* -- calls that an exception has ended ------------------------------------ */

/* Exceptions that are followed from one to what was being handled when it was
 * raised: a program may have tied them into a circle. */
#define MOST_CONTEXTS 16

static struct {
    PyObject **frames; /* owned frame objects */
    uint32_t count, capacity;
} ended;

static int
add_ended(PyTracebackObject *trace, ia_ptrmap *known)
{
    for (; trace != NULL; trace = trace->tb_next) {
        PyObject *frame = (PyObject *)trace->tb_frame;
        ia_frame *f = ia_frame_of_object(frame);
        if (f == NULL || !is_ended(f) || ia_ptrmap_has(known, (uintptr_t)f))
            continue; /* cleared, or running still */
        if (IA_ROOM(ended.frames, ended.capacity, ended.count + 1) < 0 ||
            ia_ptrmap_set(known, (uintptr_t)f, 1) < 0)
            return -1;
        ended.frames[ended.count++] = Py_NewRef(frame);
    }
    return 0;
}

static void
forget_ended(void)
{
    PyObject **frames = ended.frames;
    uint32_t count = ended.count;
    ended.frames = NULL;
    ended.count = ended.capacity = 0;
    while (count > 0)
        Py_DECREF(frames[--count]);
    free(frames);
}

int
ia_frames_set_ended(PyObject *error)
{
    ia_ptrmap known = {0};
    int result = 0;
    forget_ended();
    for (int i = 0; i < MOST_CONTEXTS && error != NULL && result == 0; i++) {
        PyBaseExceptionObject *e = (PyBaseExceptionObject *)error;
        if (e->traceback != NULL && PyTraceBack_Check(e->traceback))
            result = add_ended((PyTracebackObject *)e->traceback, &known);
        error = e->context;
    }
    ia_ptrmap_free(&known);
    if (result < 0)
        forget_ended();
    return result;
}

ia_frame *
ia_frame_ended(uint32_t i)
{
    return i < ended.count ? ia_frame_of_object(ended.frames[i]) : NULL;
}

/* -- what one frame has --------------------------------------------------- */

PyCodeObject *
ia_frame_code(ia_frame *f)
{
#if PY_VERSION_HEX >= 0x030E0000
    PyObject *code = PyStackRef_AsPyObjectBorrow(f->f_executable);
    return code && PyCode_Check(code) ? (PyCodeObject *)code : NULL;
#elif PY_VERSION_HEX >= 0x030D0000
    return f->f_executable && PyCode_Check(f->f_executable)
               ? (PyCodeObject *)f->f_executable
               : NULL;
#else
    return f->f_code;
#endif
}

int
ia_frame_instr(ia_frame *f)
{
#if PY_VERSION_HEX >= 0x030D0000
    const _Py_CODEUNIT *at = f->instr_ptr;
#else
    const _Py_CODEUNIT *at = f->prev_instr;
#endif
    return (int)((at - _PyCode_CODE(ia_frame_code(f))) *
                 (Py_ssize_t)sizeof(_Py_CODEUNIT));
}

int
ia_frame_is_generator(ia_frame *f)
{
    return f->owner == FRAME_OWNED_BY_GENERATOR;
}

PyObject *
ia_frame_generator(ia_frame *f)
{
    size_t before = offsetof(PyGenObject, gi_iframe);
    return ia_frame_is_generator(f) ? (PyObject *)((char *)f - before) : NULL;
}

int
ia_frame_calls_with_array(ia_frame *f)
{
#if PY_VERSION_HEX < 0x030C0000
    return _Py_OPCODE(*f->prev_instr) == CALL_FUNCTION_EX &&
           (_Py_OPARG(*f->prev_instr) & 1);
#else
    (void)f;
    return 0;
#endif
}

PyObject *
ia_frame_locals(ia_frame *f)
{
    return f->f_locals;
}

PyObject *
ia_frame_function(ia_frame *f)
{
#if PY_VERSION_HEX >= 0x030E0000
    return PyStackRef_AsPyObjectBorrow(f->f_funcobj);
#elif PY_VERSION_HEX >= 0x030C0000
    return f->f_funcobj;
#else
    return (PyObject *)f->f_func;
#endif
}

PyObject *
ia_frame_object(ia_frame *f)
{
    return (PyObject *)(is_ended(f) ? object_around(f) : f->frame_obj);
}

int
ia_frame_slots(ia_frame *f)
{
    int locals = ia_frame_code(f)->co_nlocalsplus;
#if PY_VERSION_HEX >= 0x030E0000
    int written = f->stackpointer == NULL
                      ? 0
                      : (int)(f->stackpointer - f->localsplus);
#else
    int written = f->stacktop; /* -1 while the frame runs */
#endif
    return written > locals ? written : locals;
}

int
ia_frame_hidden_stack(ia_frame *f, PyObject *const **words)
{
#if PY_VERSION_HEX >= 0x030E0000
    (void)f, (void)words;
    return 0;
#else
    PyCodeObject *code = ia_frame_code(f);
    *words = f->localsplus + code->co_nlocalsplus;
    return f->stacktop < 0 ? code->co_stacksize : 0;
#endif
}

PyObject *
ia_frame_slot(ia_frame *f, int i)
{
#if PY_VERSION_HEX >= 0x030E0000
    _PyStackRef ref = f->localsplus[i];
    if (PyStackRef_IsNull(ref) || PyStackRef_IsTaggedInt(ref))
        return NULL;
    return PyStackRef_AsPyObjectBorrow(ref);
#else
    return f->localsplus[i];
#endif
}

PyObject *
ia_code_slot_name(PyCodeObject *code, int i, int *cell)
{
    *cell = 0;
    if (i < 0 || i >= code->co_nlocalsplus)
        return NULL;
    _PyLocals_Kind kind = _PyLocals_GetKind(code->co_localspluskinds, i);
    *cell = (kind & (CO_FAST_CELL | CO_FAST_FREE)) != 0;
    return PyTuple_GET_ITEM(code->co_localsplusnames, i);
}

ia_frame *
ia_generator_frame(PyObject *op, int *running)
{
    PyGenObject *gen = (PyGenObject *)op; /* coroutines share the layout */
    if (gen->gi_frame_state >= FRAME_COMPLETED)
        return NULL;
    *running = gen->gi_frame_state == FRAME_EXECUTING;
#if PY_VERSION_HEX >= 0x030E0000
    return &gen->gi_iframe;
#else
    return (ia_frame *)gen->gi_iframe;
#endif
}

ia_frame *
ia_frame_of_object(PyObject *op)
{
    ia_frame *f = ((PyFrameObject *)op)->f_frame;
    return f != NULL && ia_frame_code(f) != NULL ? f : NULL;
}

int
ia_code_line(PyCodeObject *code, int instr)
{
    return PyCode_Addr2Line(code, instr);
}

int
ia_frame_runs(const void *code)
{
    ia_frame *f = ia_frame_top(PyThreadState_Get());
    while (f != NULL && (const void *)ia_frame_code(f) != code)
        f = ia_frame_back(f);
    return f != NULL;
}

/* -- the end of code ------------------------------------------------------- */

/* Code watchers are there from 3.12 on, and eight of them; the slot is the
 * same in all versions.  Set once, and kept: somebody's wrapper may still
 * reach us after the end. */
static destructor code_dealloc;

atomic_uint ia_code_ends[IA_CODE_LIVES];
atomic_uint ia_code_all_ends;

static void
dealloc_code(PyObject *code)
{
    atomic_fetch_add_explicit(&ia_code_all_ends, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(
        &ia_code_ends[((uintptr_t)code >> 5) % IA_CODE_LIVES], 1,
        memory_order_relaxed);
    code_dealloc(code);
}

void
ia_code_watch(int on)
{
    destructor now = PyCode_Type.tp_dealloc;
    atomic_fetch_add_explicit(&ia_code_all_ends, 1, memory_order_relaxed);
    /* Somebody who wrapped ours still calls it. */
    if (on && now != dealloc_code && code_dealloc == NULL)
        code_dealloc = now;
    if (on && now == code_dealloc)
        PyCode_Type.tp_dealloc = dealloc_code;
    else if (!on && now == dealloc_code)
        PyCode_Type.tp_dealloc = code_dealloc;
}

/* -- a chain, on the hot path ------------------------------------------------ */

/* Code is told from other code that lay at its address before by the ends
 * that were seen there: notebooks and exec() free code and get its memory
 * again, line table and all. */
static inline uint64_t
number_of(const void *code, int instr)
{
    uint64_t place = (uint64_t)(uint32_t)instr << 32 | ia_code_life(code);
    return (uint64_t)(uintptr_t)code * UINT64_C(0xC2B2AE3D27D4EB4F) +
           place * UINT64_C(0x165667B19E3779F9);
}

static inline uint64_t
mix(uint64_t h, uint64_t value)
{
    h = (h ^ value) * UINT64_C(0x9E3779B97F4A7C15);
    return h ^ (h >> 29);
}

static inline const void *
instruction_of(const _PyInterpreterFrame *f)
{
#if PY_VERSION_HEX >= 0x030D0000
    return f->instr_ptr;
#else
    return f->prev_instr;
#endif
}

static inline int
is_as_seen(const ia_seen_frame *s, _PyInterpreterFrame *f)
{
    return s->frame == f && s->at == instruction_of(f) &&
           s->raw.code == (void *)ia_frame_code(f);
}

static _PyInterpreterFrame *
innermost(PyThreadState *tstate)
{
#if PY_VERSION_HEX >= 0x030D0000
    return tstate->current_frame;
#else
    return tstate->cframe != NULL ? tstate->cframe->current_frame : NULL;
#endif
}

/* A thread's last stack is too large for IA_OF_THREAD. */
static IA_OF_THREAD ia_raw_stack *last;

int
ia_stack_is_at_its_end(void)
{
    _PyInterpreterFrame *f = innermost(_PyThreadState_GET());
    if (last == NULL || last->count == 0)
        return 0;
    const ia_seen_frame *end = &last->frames[last->count - 1];
    for (; f != NULL; f = f->previous) {
        if (is_as_seen(end, f))
            return 1;
        if (is_complete(f))
            return 0;
    }
    return 0;
}

#define SEED 3u

static void
put_on(ia_raw_stack *s, _PyInterpreterFrame **fresh, int count)
{
    uint64_t h = s->count > 0 ? s->frames[s->count - 1].hash : SEED;
    for (int i = count - 1; i >= 0; i--) {
        _PyInterpreterFrame *f = fresh[i];
        PyCodeObject *code = ia_frame_code(f);
        int instr = ia_frame_instr(f);
        h = mix(h, number_of(code, instr));
        s->frames[s->count++] = (ia_seen_frame){
            .raw = {code, instr},
            .frame = f,
            .at = instruction_of(f),
            .hash = h,
        };
    }
    s->hash = h | 1;
    s->stack = 0;
}

static pthread_key_t end_of_thread;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void
forget_last(void *stack)
{
    last = NULL;
    free(stack);
}

static void
make_key(void)
{
    pthread_key_create(&end_of_thread, forget_last);
}

/* Memory that is short makes it a stack without frames. */
static IA_SELDOM ia_raw_stack *
first_of_thread(void)
{
    ia_raw_stack *s = calloc(1, sizeof *s);
    if (s == NULL)
        return NULL;
    pthread_once(&once, make_key);
    if (pthread_setspecific(end_of_thread, s) != 0) {
        free(s);
        return NULL;
    }
    return last = s;
}

/* Is all from `f` outwards as it was seen? */
static inline int
is_the_same(const ia_raw_stack *s, _PyInterpreterFrame *f)
{
    const ia_seen_frame *left = s->frames + s->count;
    for (; f != NULL && left > s->frames; f = f->previous) {
        if (is_as_seen(left - 1, f))
            left--;
        else if (is_complete(f))
            return 0;
    }
    return left == s->frames && (f == NULL || s->count == IA_MAX_FRAMES ||
                                 first_complete(f) == NULL);
}

/* Outwards from the innermost frame, beside what was seen the last time, of
 * which what lies before `left` is yet to be met.  Frames lie on the
 * interpreter's stack one above the other, so what was seen and lies above has
 * returned; where that misleads (generators' frames lie elsewhere) more is
 * read anew.  Only what goes on being as it was to the outermost frame is
 * kept. */
static __attribute__((noinline)) void
read_what_is_new(ia_raw_stack *s, _PyInterpreterFrame *f, uint32_t ends)
{
    _PyInterpreterFrame *walked[IA_MAX_FRAMES];
    const ia_seen_frame *end = s->frames;
    const ia_seen_frame *left = end + (s->ends == ends ? s->count : 0);
    int n = 0, fresh = 0, kept = 0;
    for (; f != NULL && n < IA_MAX_FRAMES; f = f->previous) {
        if (left == end || !is_as_seen(left - 1, f)) {
            if (!is_complete(f))
                continue;
            kept = 0;
            while (left > end && (uintptr_t)left[-1].frame > (uintptr_t)f)
                left--;
            if (left == end || !is_as_seen(left - 1, f)) {
                walked[n++] = f;
                continue;
            }
        }
        if (kept == 0) {
            kept = (int)(left - end);
            fresh = n;
        }
        left--;
        walked[n++] = f;
    }
    if (kept == 0 || left > end) {
        kept = 0;
        fresh = n;
    }
    if (fresh > 0 || kept != s->count) {
        s->ends = ends;
        s->count = kept;
        put_on(s, walked, fresh);
    }
}

ia_raw_stack *
ia_stack_capture(void)
{
    static ia_raw_stack none;
    ia_raw_stack *s = last != NULL ? last : first_of_thread();
    if (s == NULL)
        return &none;
    PyThreadState *tstate = PyGILState_GetThisThreadState();
    _PyInterpreterFrame *f = tstate != NULL ? innermost(tstate) : NULL;
    uint32_t ends =
        atomic_load_explicit(&ia_code_all_ends, memory_order_relaxed);
    if (s->ends != ends || !is_the_same(s, f))
        read_what_is_new(s, f, ends);
    return s;
}
