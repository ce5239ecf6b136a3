/* Shared by the files of impactarbiter._arrays, grouped by owning file.
 *
 * JAX and TensorFlow are seen alike: an array is an object of one C class,
 * whose slots tell of births and deaths, and which C functions of its own
 * answer for; a step is a call of what the framework compiled.  What differs
 * is an ia_array_class.  Everything here runs with the GIL held.
 */
#ifndef IA_ARRAYS_HOOKS_H
#define IA_ARRAYS_HOOKS_H

#include "../core/base/core_api.h"

/* The core's table: set once, by exec, before any hook can run. */
extern const ia_core_api *ia_api;

/* What an array's memory is, in at most so many pieces; an array on more
 * devices is counted by the first ones. */
#define IA_MOST_PIECES 64

typedef struct {
    ia_storage items[IA_MOST_PIECES];
    /* The object that has this piece alone and is held by the array, if it is
     * another one; borrowed. */
    PyObject *parts[IA_MOST_PIECES];
    PyObject *list; /* borrowed; by which it holds them, or NULL */
    int count;
} ia_pieces;

/* How arrays of one framework are asked.  None runs code of the user's; none
 * leaves an exception set. */
typedef struct {
    PyTypeObject *type; /* owned, NULL until the framework is there */
    /* Its memory; no piece where it has none. */
    void (*read)(PyObject *op, ia_pieces *);
    /* Nonzero where it was deleted or donated: the object is all there is. */
    int (*is_gone)(PyObject *op);
    /* Shape and dtype. */
    void (*describe)(PyObject *op, ia_tensor_info *);
    destructor dealloc; /* as the framework has it */
    int reporting;
} ia_array_class;

/* classes.c: births and deaths. */

/* The class that a type belongs to, or NULL. */
ia_array_class *ia_class_of(PyTypeObject *);
/* 0, or 1 with an exception set: its objects come and go in another way than
 * the usual one. */
int ia_class_refuses(PyTypeObject *);
void ia_class_install(ia_array_class *);
void ia_class_uninstall(ia_array_class *);
int ia_class_installed(const ia_array_class *);
void ia_classes_silence(void);

/* claims.c: which arrays have which memory. */

/* Notes an array's memory and has `enter` called for what nobody has yet;
 * enter may be NULL. */
void ia_claims_add(const ia_array_class *, PyObject *op, ia_enter enter,
                   void *arg);
/* It is dead.  Its memory leaves the ledger at the next sweep: by then what
 * took its place has entered, and a value that is made anew a little larger in
 * each step is never gone. */
void ia_claims_bury(PyObject *op);
/* Takes the dead out of the ledger, and drops arrays and parts that were
 * deleted: of the newest and of some others, or of all. */
void ia_claims_sweep(int all);
/* The i-th piece of an array, and what the array holds for it: the part that
 * has it alone, the list of all parts at the first, or NULL.  NULL after the
 * last, and for what is gone. */
const ia_storage *ia_claims_piece(PyObject *op, int i, PyObject **held);
void ia_claims_forget(void);
uint32_t ia_claims_count(void);

/* calls.c: steps.  0, or -1 with an exception set. */

/* Objects of this type have a vectorcall of their own: what the framework
 * makes from here on is seen where `attribute` is set, unless the function
 * that is its value is of one of these packages. */
int ia_calls_watch_instances(PyTypeObject *, const char *attribute);
/* One that was there before. */
void ia_calls_watch_instance(PyObject *callable, PyObject *function);
/* Calls of objects of this type, by its slot; `function` is the attribute that
 * has what was compiled, or NULL. */
int ia_calls_watch_type(PyTypeObject *, const char *function);
void ia_calls_unwatch(void);
/* Owned: called as (callable, function, args, kwargs) after an outermost call
 * in which ia_calls_traced() was; function is what the program wrote, or None.
 * The int that it gives is the function's number from here on.  Counts of
 * calls begin anew. */
void ia_calls_set_listener(PyObject *);
/* Outermost calls since its first trace of what has that number. */
uint64_t ia_calls_of(size_t number);
void ia_calls_traced(void);
/* Gradients were taken: where a call is running, it trains. */
void ia_calls_train(void);
/* Nonzero inside of a call on this thread. */
int ia_calls_running(void);
void ia_calls_silence(void);
int ia_calls_traverse(visitproc visit, void *arg);

/* program.c: whose function was compiled. */

/* What the program wrote of a function that may be wrapped, the innermost;
 * borrowed, or NULL where all of it is a framework's own. */
PyObject *ia_program_function(PyObject *);

/* tape.c: what a gradient tape has recorded. */

/* Objects of this type are C++'s tapes.  0, or -1 with an exception set. */
int ia_tape_init(PyObject *type);
int ia_is_tape(PyTypeObject *);
/* Sinks the Python objects that it holds. */
int ia_tape_expand(PyObject *op, ia_sink *);

/* framework.c */
const ia_framework *ia_arrays_framework(void);

/* jax.c, tensorflow.c: 0, or -1 with an exception set. */
extern ia_array_class ia_jax;
int ia_jax_init(PyObject *array_class);
void ia_jax_clear(void);
extern ia_array_class ia_tensorflow;
int ia_tensorflow_init(PyObject *tensor_class, PyObject *tape_class);
void ia_tensorflow_clear(void);

#endif /* IA_ARRAYS_HOOKS_H */
