/* The contract between _core and the modules that know a framework.
 *
 * _core exports one ia_core_api in a capsule; a framework module (_torch,
 * _cuda, _arrays) imports it, reports births and deaths through it, and
 * registers one ia_framework so that the heap walk can look behind objects
 * whose tp_traverse shows nothing.  Several may be registered.  Plain C types only: neither side sees the other's headers.
 */
#ifndef IA_CORE_API_H
#define IA_CORE_API_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

#include "device_event.h"

#define IA_API_VERSION 12
#define IA_API_CAPSULE "impactarbiter._core._api"

/* One block of tensor memory.  `data` is what the allocator returned, `impl`
 * the framework's own object for it; the ledger knows a block by the one or
 * by the other, never by both. */
typedef struct {
    uintptr_t data;
    uintptr_t impl;
    size_t bytes;
    uint16_t device; /* device type << 8 | device index */
} ia_storage;

/* What an edge of the autograd graph is called in a path. */
typedef enum {
    IA_EDGE_GRAD_FN = 1, /* tensor -> node that made it */
    IA_EDGE_NEXT,        /* node -> node, index = input number */
    IA_EDGE_SAVED,       /* node -> saved tensor, name = "mat1" or NULL */
    IA_EDGE_PACKED,      /* node -> what a saved-tensor hook packed */
    IA_EDGE_VARIABLE,    /* AccumulateGrad -> leaf tensor */
    IA_EDGE_GRAD,        /* tensor -> .grad */
    IA_EDGE_BASE,        /* view -> _base */
    IA_EDGE_HOOK,        /* tensor or node -> Python hook */
    IA_EDGE_FUNCTION,    /* node -> Python object of a custom Function */
    IA_EDGE_NODE,        /* Python wrapper of a node -> the node */
    IA_EDGE_SHARD,       /* array on several devices -> its part on one, or
                          * with index -1 the list of them */
    IA_EDGE_RECORDED,    /* gradient tape -> what it has recorded */
    IA_EDGE_ATTRIBUTE,   /* script's object -> a tensor of its attributes',
                          * name = "layers.0.cache[17]" */
    IA_EDGE_STORAGE,     /* tensor or storage object -> its memory */
    IA_EDGE_STORAGE_OBJECT, /* tensor -> the Python object of its storage */
} ia_edge_kind;

/* Receives what an expanded thing holds, strong references only.  `name` may
 * be NULL and lives for the call only; `index` is -1 where there is none.
 * Each returns 0 to go on, nonzero to stop; the expander returns it.
 *
 * made() hears of each tensor that an expanded thing is or has saved whose
 * memory was born in the forward of one of the framework's own operations:
 * that operation's node gave it back, it is no view, and nobody has written
 * to it since.  NULL where nobody asks. */
typedef struct ia_sink ia_sink;
struct ia_sink {
    int (*object)(ia_sink *, PyObject *, ia_edge_kind, const char *name,
                  Py_ssize_t index);
    int (*node)(ia_sink *, void *, ia_edge_kind, const char *name,
                Py_ssize_t index);
    int (*storage)(ia_sink *, const ia_storage *, ia_edge_kind,
                   const char *name, Py_ssize_t index);
    void (*made)(ia_sink *, void *node, const ia_storage *);
};

/* What the walk must know about a Python type.  Found once per type. */
typedef enum {
    IA_KIND_PLAIN = 0, /* tp_traverse tells all */
    IA_KIND_TENSOR,    /* expand_object tells the rest */
    IA_KIND_STORAGE,
    IA_KIND_NODE,      /* wrapper of a C++ autograd node */
    IA_KIND_FUNCTION,  /* ctx of a custom autograd Function */
    IA_KIND_SCRIPT,    /* TorchScript's object, which lives in C++ */
} ia_kind;

#define IA_MAX_DIMS 8

typedef struct {
    ia_storage storage;          /* bytes 0 where there is none */
    int64_t shape[IA_MAX_DIMS];  /* the first IA_MAX_DIMS sizes */
    int dims;                    /* -1 where the shape can't be told */
    uint64_t span;               /* bytes of the storage from its first element
                                  * to its last; 0 where that can't be told */
    char dtype[24];              /* "float32" */
    char device[24];             /* "cuda:0" */
    int requires_grad;
    int is_leaf;
    int is_parameter;
    uint32_t writes;             /* in place, as the framework counts them */
} ia_tensor_info;

/* An autograd node by the numbers that it got when it was made. */
typedef struct {
    uint64_t thread;   /* that made it, as the framework counts: not 0 */
    uint64_t sequence; /* of that thread; UINT64_MAX where it has none */
    const char *name;  /* its class, not terminated; lives for ever */
    size_t name_length;
} ia_node_mark;

/* Enters a storage into the ledger: 1, or 0 where it is known already. */
typedef int (*ia_enter)(const ia_storage *, void *arg);

/* Supplied by a framework module.  All calls are made with the GIL held and
 * none but adopt() may run Python code, create a Python object, or unpack
 * through a user's hook.  No call may throw.  One without a graph has
 * expand_node NULL, and is never asked about nodes where another has one. */
typedef struct {
    int version; /* IA_API_VERSION */
    ia_kind (*kind_of_type)(PyTypeObject *);
    /* Everything that tp_traverse of an object of that kind does not show. */
    int (*expand_object)(PyObject *, ia_kind, ia_sink *);
    int (*expand_node)(void *node, ia_sink *);
    /* "AddmmBackward0"; always terminates buf. */
    void (*describe_node)(void *node, char *buf, size_t size);
    /* 1 and *info filled, or 0 when the tensor can't be described. */
    int (*describe_tensor)(PyObject *, ia_tensor_info *);
    /* 1 and *storage filled, or 0 when it has none. */
    int (*storage_of)(PyObject *tensor, ia_storage *);
    /* The node that made a tensor, or NULL; makes no wrapper.  The pointer is
     * good while the tensor is alive and unchanged. */
    void *(*grad_fn_of)(PyObject *tensor);
    /* Sinks the next nodes only: cheap, for counting.  Holds nothing. */
    int (*next_nodes)(void *node, ia_sink *);
    /* When a node was made, by its thread's count, and that count now;
     * UINT64_MAX for a node that is given none (AccumulateGrad). */
    uint64_t (*node_sequence)(void *node);
    uint64_t (*sequence_now)(void);
    /* Bytes of the node itself and its list of edges, at least; 0 where they
     * can't be told.  What it saved is not in it. */
    size_t (*node_bytes)(void *node);
    /* Brackets a walk.  walk_begin returns 1 where no other thread changes
     * anything of the framework's until walk_end; 0 where one may: then its
     * objects are not traversed, and expand_object tells their storages only.
     * With `patience` it waits a little for such threads, and may let go of
     * the GIL before it does: nothing borrowed outlives the call. */
    int (*walk_begin)(int patience);
    void (*walk_end)(void);
    /* The node that the calling thread evaluates: 1, or 0 where there is
     * none.  And what the next node made on it will have, without a name.
     * Any thread, with or without the GIL, perhaps under an allocator's lock:
     * thread-local reads, no lock, no virtual function. */
    int (*running_node)(ia_node_mark *);
    void (*next_node)(ia_node_mark *);
    /* Follow a storage that no allocator hook sees, weakly: 1, 0 where it
     * need not be, -1 where another thread may be changing it just now.
     * sweep() reports through storage_died those that have died since. */
    int (*follow_storage)(PyObject *tensor);
    void (*sweep)(void);
    /* Classes of which an optimizer was ever made: more than before means
     * that there is a new one.  May be NULL. */
    int (*optimizer_classes)(void);
    /* Instead of storage_of() and follow_storage(): has every storage of a
     * tensor that is alive at a boundary entered, and reports itself when
     * they die.  1, or 0 where the tensor is not this framework's.  May let
     * go of the GIL.  NULL where follow_storage() serves. */
    int (*adopt)(PyObject *tensor, ia_enter enter, void *arg);
} ia_framework;

typedef enum {
    IA_EVENT_OPTIMIZER = 0, /* strongest: see steps.c */
    IA_EVENT_BACKWARD,
    IA_EVENT_MODULE,
    IA_EVENT_COMPILED, /* a call of a function that a framework compiled */
    IA_EVENT_MANUAL,
    IA_EVENT_TURN, /* of a loop that makes memory: there is nothing else */
} ia_event;

typedef struct {
    int version; /* IA_API_VERSION */
    /* Births and deaths.  Any thread, with or without the GIL. */
    void (*storage_born)(uintptr_t key, size_t bytes, uint16_t device);
    void (*storage_died)(uintptr_t key);
    /* The same, unless its address has become another device's meanwhile. */
    void (*storage_left)(uintptr_t key, uint16_t device);
    /* It is found to have so many bytes, of the device's that it was. */
    void (*storage_resized)(uintptr_t key, uint16_t device, size_t bytes);
    /* What the ledger knows as `from` it knows as `to` from here on: 1, or 0
     * where it does not know it, or memory is short. */
    int (*storage_renamed)(uintptr_t from, uintptr_t to);
    /* An event of a device's allocator, under that allocator's lock.  Any
     * thread, with or without the GIL; calls nothing back. */
    void (*device_event)(const ia_device_event *);
    /* Nonzero where every block of a device's allocator is reported so. */
    int (*device_followed)(uint16_t device);
    /* A backward starts on this thread (GIL). */
    void (*backward_begins)(void);
    /* Nonzero while hooks should report. */
    int (*active)(void);
    /* Nonzero while this thread collects garbage: what dies now was held by a
     * cycle. */
    int (*collecting)(void);
    /* A Python tensor object was allocated / is about to be freed (GIL). */
    void (*tensor_born)(PyObject *);
    void (*tensor_died)(PyObject *);
    /* Something that may end a step happened (GIL held, no exception set;
     * returns with none set).  Runs the boundary and, where a look is due,
     * the Python callback. */
    void (*event)(ia_event);
    /* The same at the end of a call, whose arguments only the caller's C code
     * may hold: they are on their way, and nobody keeps them. */
    void (*call_ends)(ia_event, PyObject *const *args, Py_ssize_t count);
    /* Registers the framework; the struct must live for ever.  0, or -1 with
     * an exception set. */
    int (*register_framework)(const ia_framework *);
    /* The code of a device that is called so, "jax:cpu:0"; what stands before
     * the first colon is its line in sums by purpose.  Names are few and are
     * kept; a code without a name where there are too many.  GIL. */
    uint16_t (*device_named)(const char *name);
    /* Is this code running on the calling thread's stack (GIL held)?  The
     * pointer is compared, never followed. */
    int (*is_running)(const void *code);
    /* A failure inside a hook: warns once and turns everything off. */
    void (*fail)(const char *where, const char *what);
    /* Memory ran out: writes a bundle where a recorder is armed.  Any thread,
     * with or without the GIL; the whole contract is in recorder.h. */
    void (*recorder_oom)(uint16_t device, size_t asked);
} ia_core_api;

#endif /* IA_CORE_API_H */
