/* Following a known holder's path again. */

#include "../base/compat.h"
#include "visits.h"

#include "../base/kinds.h"
#include "../base/read.h"
#include "../heap/waiting.h"
#include "../ledger/frames.h"
#include "../steps/unseen.h"
#include "path_link.h"

#include <stdlib.h>
#include <string.h>

/* Paths that are known at a time; a report shows fewer findings. */
#define MOST_PATHS 256
/* Links of one path.  A linked list's holder is its first link. */
#define MOST_LINKS 64

typedef struct {
    uint32_t number; /* 0 = free */
    ia_root_kind root;
    PyCodeObject *code; /* of a frame; compared, never followed */
    int may_wait; /* a coroutine's */
    int container;
    int kept;
    int in_front; /* of what it was at the last visit, by a link before it */
    uint32_t count;
    ia_link *links; /* owned; links[0] is the root */
    ia_seen seen;   /* the holder at the last visit */
} path;

static path paths[MOST_PATHS];
static uint32_t last_number;
static int still; /* what walk_begin said of this visit */

/* -- paths ------------------------------------------------------------------ */

static path *
find(uint32_t number)
{
    path *p = &paths[number % MOST_PATHS];
    return number != IA_NO_PATH && p->number == number ? p : NULL;
}

static void
clear(path *p)
{
    for (uint32_t i = 0; i < p->count; i++)
        Py_XDECREF(p->links[i].life);
    free(p->links);
    *p = (path){0};
}

int
ia_visits_keep(PyObject *numbers)
{
    for (uint32_t i = 0; i < MOST_PATHS; i++)
        paths[i].kept = 0;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(numbers); i++) {
        unsigned long number =
            PyLong_AsUnsignedLong(PyList_GET_ITEM(numbers, i));
        if (PyErr_Occurred())
            return -1;
        path *p = find((uint32_t)number);
        if (p != NULL)
            p->kept = 1;
    }
    for (uint32_t i = 0; i < MOST_PATHS; i++)
        if (!paths[i].kept)
            clear(&paths[i]);
    return 0;
}

void
ia_visits_forget_all(void)
{
    for (uint32_t i = 0; i < MOST_PATHS; i++)
        clear(&paths[i]);
    ia_passing_forget_all();
}

static uint32_t
links_down_to(const ia_walk *w, uint32_t entry)
{
    uint32_t n = 0;
    for (; entry != IA_NO_ENTRY; entry = w->queue[entry].parent)
        n++;
    return n;
}

/* Whether it is the context that a thread runs in. */
static int
is_context_of_a_thread(uintptr_t ref)
{
    PyThreadState *t =
        PyInterpreterState_ThreadHead(PyInterpreterState_Get());
    while (t != NULL && (uintptr_t)t->context != ref)
        t = PyThreadState_Next(t);
    return t != NULL;
}

static int
can_start_at(const ia_root *root)
{
    return root->kind == IA_ROOT_MODULE || root->kind == IA_ROOT_FRAME ||
           (root->kind == IA_ROOT_THREAD && is_context_of_a_thread(root->ref));
}

static path *
free_place(void)
{
    for (uint32_t i = 0; i < MOST_PATHS; i++) {
        path *p = &paths[++last_number % MOST_PATHS];
        if (last_number != IA_NO_PATH && p->number == 0)
            return p;
    }
    return NULL;
}

/* What visits by another path have seen of the same holder: it is still in use
 * where a walk has just found that again. */
static void
take_over(path *p)
{
    const ia_link *mine = &p->links[p->count - 1];
    uint32_t latest = 0;
    for (size_t i = 0; i < MOST_PATHS; i++) {
        const path *old = &paths[i];
        if (old == p || old->number <= latest ||
            old->container != p->container)
            continue;
        const ia_link *its = &old->links[old->count - 1];
        if (its->ref != mine->ref || its->type != mine->type ||
            !ia_link_is_alive(its))
            continue;
        latest = old->number;
        p->seen = old->seen;
    }
}

int
ia_visits_remember(const ia_walk *w, uint32_t holder, int container,
                   uint32_t *number)
{
    uint32_t n = links_down_to(w, holder), root = holder;
    while (w->queue[root].parent != IA_NO_ENTRY)
        root = w->queue[root].parent;
    const ia_root *start = &w->roots->items[w->queue[root].root];
    *number = IA_NO_PATH;
    if (n > MOST_LINKS || !can_start_at(start))
        return 0;
    path *p = free_place();
    if (p == NULL)
        return 0;
    ia_link *links = calloc((size_t)n + 1, sizeof *links);
    if (links == NULL)
        return -1;
    *p = (path){.number = last_number,
                .root = start->kind,
                .container = container,
                .count = n,
                .links = links};
    if (start->kind == IA_ROOT_FRAME) {
        p->code = ia_frame_code((ia_frame *)IA_ADDRESS(start->ref));
        p->may_wait = (p->code->co_flags & CO_COROUTINE) != 0;
    }
    for (uint32_t entry = holder; n > 0; entry = w->queue[entry].parent)
        links[--n] = ia_link_to(w->queue[entry].ref);
    uint32_t found = 1;
    still = w->graph;
    while (found < p->count &&
           ia_link_place(&links[found], links[found - 1].ref, still))
        found++;
    still = 0;
    if (found < p->count) {
        clear(p);
        return 0;
    }
    take_over(p);
    *number = p->number;
    return 0;
}

/* -- visits ----------------------------------------------------------------- */

static int
is_module_alive(uintptr_t dict)
{
    PyObject *modules = ia_interp_modules(), *name, *module;
    Py_ssize_t pos = 0;
    while (modules && PyDict_Next(modules, &pos, &name, &module))
        if (PyModule_Check(module) &&
            (uintptr_t)PyModule_GetDict(module) == dict)
            return 1;
    return 0;
}

static int
is_among(uintptr_t address, ia_frame *const *calls, int n)
{
    while (n > 0 && (uintptr_t)calls[n - 1] != address)
        n--;
    return n > 0;
}

static int
is_waiting(uintptr_t address)
{
    ia_frame *calls[IA_MOST_WAITING], *f;
    ia_all_frames all = {0};
    int found = 0;
    while (!found && (f = ia_frame_next(&all)) != NULL)
        found = is_among(address, calls, ia_waiting_calls(f, calls));
    return found;
}

static int
is_frame_running(const path *p)
{
    uintptr_t address = IA_ADDRESS(p->links[0].ref);
    ia_all_frames all = {0};
    ia_frame *f;
    while ((f = ia_frame_next(&all)) != NULL && (uintptr_t)f != address)
        ;
    return (f != NULL || (p->may_wait && is_waiting(address))) &&
           ia_frame_code((ia_frame *)address) == p->code;
}

static int
is_root_alive(const path *p)
{
    if (p->root == IA_ROOT_THREAD)
        return 1; /* that was asked before */
    return p->root == IA_ROOT_MODULE
               ? is_module_alive(p->links[0].ref)
               : is_frame_running(p);
}

/* -- following a path -------------------------------------------------------- */

/* A name that is given another value leads to what is there now; whether a
 * container is the one it was, its items say. */
static int
move_on(path *p, uint32_t i)
{
    return ia_link_move_on(&p->links[i], p->links[i - 1].ref, still);
}

static int
follow_link(path *p, uint32_t i, ia_bearing how)
{
    return ia_link_follow(&p->links[i], p->links[i - 1].ref, how, still);
}

static PyObject *
at_link(const path *p, uint32_t i)
{
    return ia_link_at(&p->links[i], p->links[i - 1].ref, still);
}

/* Has a call that runs this in a variable, or is it the generator of one? */
static int
runs_with(uintptr_t ref)
{
    ia_all_frames all = {0};
    ia_frame *f;
    while ((f = ia_frame_next(&all)) != NULL) {
        if ((uintptr_t)ia_frame_generator(f) == ref)
            return 1;
        for (int i = ia_frame_slots(f); i-- > 0;)
            if ((uintptr_t)ia_frame_slot(f, i) == ref)
                return 1;
    }
    return 0;
}

/* A frame in a call of C does not show its evaluation stack, where a for loop
 * has what it goes through.  While that makes the next item, calls that run
 * have it, or what it leads to: the first link from this one on of which that
 * is so, or 0. */
static uint32_t
first_that_runs(const path *p, uint32_t link)
{
    uintptr_t parent = p->links[link - 1].ref;
    if (IA_TAG(parent) != IA_TAG_FRAME ||
        p->links[link].place < ia_frame_slots((ia_frame *)IA_ADDRESS(parent)))
        return 0;
    for (; link + 1 < p->count; link++) {
        const ia_link *l = &p->links[link];
        if (IA_TAG(l->ref) == IA_TAG_OBJECT && runs_with(l->ref) &&
            Py_TYPE((PyObject *)l->ref) == l->type)
            return link;
    }
    return 0;
}

/* Down to the link before the last; *moved is the first that is another
 * object by now, or the last; 0 where the root is gone. */
static int
follow(path *p, ia_bearing how, uint32_t *moved)
{
    uint32_t last = *moved = p->count - 1;
    if (!is_root_alive(p)) {
        *moved = 0;
        return 0;
    }
    for (uint32_t i = 1; i < last; i++) {
        if (follow_link(p, i, how))
            continue;
        uint32_t running = first_that_runs(p, i);
        if (running > 0) {
            i = running;
            continue;
        }
        if (i < *moved)
            *moved = i;
        int moved_on = move_on(p, i);
        if (!moved_on)
            return 0;
        p->in_front |= moved_on == IA_IN_FRONT;
    }
    return 1;
}

/* The container of the last visit, or the one that stands in for it, or NULL.
 * At its address, but in another place, may lie another by now: the eldest item
 * says which of the two is the one that it was. */
static PyObject *
container_now(path *p)
{
    uint32_t i = p->count - 1;
    ia_link *last = &p->links[i], before = *last;
    PyObject *same =
        follow_link(p, i, IA_BY_ADDRESS) ? (PyObject *)last->ref : NULL;
    if (same != NULL && (last->place == before.place ||
                         ia_has_its_eldest(&p->seen, same)))
        return same;
    ia_link elsewhere = *last;
    *last = before;
    PyObject *there = at_link(p, i);
    int alike = ia_link_is_of_type(last, there);
    int in_front = alike && (p->in_front ||
                             ia_is_in_front(&p->seen, there, before.ref));
    if (alike && (in_front || ia_stands_in(&p->seen, there))) {
        p->seen.linked = in_front;
        ia_link_set(last, there);
        return there;
    }
    *last = elsewhere;
    return same;
}

/* An object of the user's is the one that it was while that lives, unless its
 * name has been given to another; any other value is what goes by the name. */
static PyObject *
value_now(path *p)
{
    uint32_t i = p->count - 1;
    ia_link *last = &p->links[i];
    if (last->life == NULL)
        return at_link(p, i);
    return follow_link(p, i, IA_BY_PLACE) || move_on(p, i)
               ? (PyObject *)last->ref
               : at_link(p, i);
}

/* The holder as the path leads to it, or NULL; *moved as by follow(). */
static PyObject *
led_to(path *p, ia_bearing how, uint32_t *moved)
{
    p->in_front = 0;
    if (!follow(p, how, moved))
        return NULL;
    return p->container ? container_now(p) : value_now(p);
}

static void
keep_links(const path *p, ia_link *kept)
{
    memcpy(kept, p->links, p->count * sizeof *kept);
    for (uint32_t i = 0; i < p->count; i++)
        Py_XINCREF(kept[i].life);
}

/* Both take the references of those that were kept. */
static void
drop_links(const path *p, const ia_link *kept)
{
    for (uint32_t i = 0; i < p->count; i++)
        Py_XDECREF(kept[i].life);
}

static void
put_back_links(path *p, const ia_link *kept)
{
    drop_links(p, p->links);
    memcpy(p->links, kept, p->count * sizeof *kept);
}

/* By places first: what is made anew each time lies where others of its kind
 * lay.  A container without the eldest item of the last visit is another one. */
static PyObject *
holder_now(path *p)
{
    ia_link before[MOST_LINKS];
    uint32_t moved;
    int linked = p->seen.linked;
    keep_links(p, before);
    PyObject *op = led_to(p, IA_BY_PLACE, &moved);
    if (moved < p->count - 1 && !(op != NULL && p->in_front) &&
        (op == NULL || (p->container && !ia_has_its_eldest(&p->seen, op)))) {
        put_back_links(p, before);
        p->seen.linked = linked;
        op = led_to(p, IA_BY_ADDRESS, &moved);
    } else {
        drop_links(p, before);
    }
    /* What does not hold any more is the call that the path began at, where it
     * has returned or its variable has another value. */
    if (op == NULL && moved <= 1 && p->root == IA_ROOT_FRAME)
        ia_passing_note(p->code);
    return op;
}

static ia_visit
visit_path(path *p)
{
    ia_visit v = {.state = IA_PATH_BROKEN, .length = -1, .names = -1};
    if (p->root == IA_ROOT_THREAD &&
        !is_context_of_a_thread(p->links[0].ref)) {
        v.state = IA_PATH_UNKNOWN; /* another one runs, and it may come back */
        return v;
    }
    PyObject *op = p->count > 1 ? holder_now(p) : NULL;
    if (op == NULL)
        return v;
    v.state = IA_PATH_INTACT;
    ia_read_holder(&p->seen, op, p->container, still, &v);
    return v;
}

ia_visit
ia_visit_path(uint32_t number, ia_chain *chain)
{
    path *p = find(number);
    if (p == NULL)
        return (ia_visit){
            .state = IA_PATH_UNKNOWN, .length = -1, .names = -1};
    ia_collector_hold(); /* a weak reference is made, or dropped */
    if (ia_the_framework != NULL)
        still = ia_the_framework->walk_begin(0);
    ia_visit v = visit_path(p);
    if (chain != NULL && still && v.state == IA_PATH_INTACT)
        ia_chain_read(chain, (PyObject *)v.value);
    if (ia_the_framework != NULL)
        ia_the_framework->walk_end();
    still = 0;
    ia_collector_release();
    return v;
}

PyObject *
ia_visit_holder(uint32_t number)
{
    ia_visit v = ia_visit_path(number, NULL);
    return v.state == IA_PATH_INTACT ? (PyObject *)v.value : NULL;
}
