/* Following a known holder's path again. */

#include "../base/compat.h"
#include "visits.h"

#include "../base/kinds.h"
#include "../base/ndarray.h"
#include "../base/read.h"
#include "../ledger/frames.h"
#include "../steps/graphs.h"
#include "../steps/unseen.h"
#include "places.h"

#include <stdlib.h>
#include <string.h>

/* Paths that are known at a time; a report shows fewer findings. */
#define MOST_PATHS 256
/* Links of one path.  A linked list's holder is its first link. */
#define MOST_LINKS 64
/* Of a list of pairs that are looked at for what was the first one at the last
 * visit: under a millisecond. */
#define MOST_PAIRS 16384

typedef struct {
    uintptr_t ref;
    PyTypeObject *type; /* of an object; compared, never followed */
    PyObject *life;     /* owned: a weak reference to it, or NULL */
    Py_ssize_t place;   /* among what the link before it shows */
    uintptr_t key;      /* mark of its key, where that is a dict, or 0 */
} hop;

/* What is in a container: addresses, and of a dict's item its key. */
typedef struct {
    uintptr_t item; /* 0: none, or not known */
    uintptr_t key;
} entry;

typedef struct {
    uint32_t number; /* 0 = free */
    ia_root_kind root;
    PyCodeObject *code; /* of a frame; compared, never followed */
    entry eldest;      /* of a container at the last visit */
    uintptr_t newest;  /* item of a list, likewise */
    Py_ssize_t length; /* likewise */
    int container;
    int linked; /* a pair that leads to the one before it, and so on */
    int kept;
    uint32_t count;
    hop *links; /* owned; links[0] is the root */
    void *node; /* behind the tensor at the last visit; never followed */
    uint64_t sequence;
} path;

static path paths[MOST_PATHS];
static uint32_t last_number;
static int still; /* what walk_begin said of this visit */

/* -- links ------------------------------------------------------------------ */

/* What else is made where it lay is told by that: of lists, dicts and what has
 * slots alone none is to be had, and of what a framework or NumPy makes anew
 * each time none is asked. */
static void
note_life(hop *link)
{
    Py_CLEAR(link->life);
    if (IA_TAG(link->ref) != IA_TAG_OBJECT)
        return;
    PyObject *op = (PyObject *)link->ref;
    int kind = ia_kind_of(Py_TYPE(op));
    if (!PyType_SUPPORTS_WEAKREFS(Py_TYPE(op)) ||
        (kind != IA_KIND_PLAIN && kind != IA_KIND_MODULE))
        return;
    ia_collector_hold();
    link->life = PyWeakref_NewRef(op, NULL);
    ia_collector_release();
    if (link->life == NULL)
        PyErr_Clear();
}

static int
is_alive(const hop *link)
{
    const PyWeakReference *life = (const PyWeakReference *)link->life;
    return life != NULL && (uintptr_t)life->wr_object == link->ref;
}

/* Mostly all is where it was: no need to pass what comes before. */
static int
is_where_it_was(const hop *parent, const hop *link)
{
    PyObject *op = (PyObject *)parent->ref, *key, *value;
    Py_ssize_t at = link->place - 1;
    if (IA_TAG(parent->ref) != IA_TAG_OBJECT || link->place < 0 ||
        (link->life != NULL && !is_alive(link)))
        return 0;
    if (PyList_CheckExact(op) || PyTuple_CheckExact(op))
        return link->place < Py_SIZE(op) &&
               (uintptr_t)PySequence_Fast_GET_ITEM(op, link->place) ==
                   link->ref;
    return link->key != 0 && PyDict_CheckExact(op) &&
           PyDict_Next(op, &at, &key, &value) &&
           (uintptr_t)value == link->ref && ia_key_mark(key) == link->key;
}

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

static hop
link_to(uintptr_t ref)
{
    PyTypeObject *type =
        IA_TAG(ref) == IA_TAG_OBJECT ? Py_TYPE((PyObject *)ref) : NULL;
    return (hop){ref, type, NULL, -1, 0};
}

/* What visits by another path have seen of the same holder: it is still in use
 * where a walk has just found that again. */
static void
take_over(path *p)
{
    const hop *mine = &p->links[p->count - 1];
    uint32_t latest = 0;
    for (size_t i = 0; i < MOST_PATHS; i++) {
        const path *old = &paths[i];
        if (old == p || old->number <= latest ||
            old->container != p->container)
            continue;
        const hop *its = &old->links[old->count - 1];
        if (its->ref != mine->ref || its->type != mine->type)
            continue;
        latest = old->number;
        p->eldest = old->eldest;
        p->newest = old->newest;
        p->length = old->length;
        p->linked = old->linked;
        p->node = old->node;
        p->sequence = old->sequence;
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
    hop *links = calloc((size_t)n + 1, sizeof *links);
    if (links == NULL)
        return -1;
    *p = (path){.number = last_number,
                .root = start->kind,
                .container = container,
                .count = n,
                .links = links};
    if (start->kind == IA_ROOT_FRAME)
        p->code = ia_frame_code((ia_frame *)IA_ADDRESS(start->ref));
    for (uint32_t entry = holder; n > 0; entry = w->queue[entry].parent)
        links[--n] = link_to(w->queue[entry].ref);
    uint32_t found = 1;
    still = w->graph;
    for (; found < p->count; found++) {
        ia_search s = {.wanted = links[found].ref, .place = -1};
        ia_search_in(links[found - 1].ref, &s, still);
        links[found].place = s.found;
        links[found].key = s.found_key;
        if (s.found < 0)
            break;
        note_life(&links[found]);
    }
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
is_frame_running(uintptr_t ref, PyCodeObject *code)
{
    ia_all_frames all = {0};
    ia_frame *f;
    while ((f = ia_frame_next(&all)) != NULL)
        if ((uintptr_t)f == IA_ADDRESS(ref))
            return ia_frame_code(f) == code;
    return 0;
}

static int
is_root_alive(const path *p)
{
    if (p->root == IA_ROOT_THREAD)
        return 1; /* that was asked before */
    return p->root == IA_ROOT_MODULE
               ? is_module_alive(p->links[0].ref)
               : is_frame_running(p->links[0].ref, p->code);
}

static int
is_of_its_type(const hop *link, uintptr_t there)
{
    return there != 0 && IA_TAG(there) == IA_TAG_OBJECT &&
           Py_TYPE((PyObject *)there) == link->type;
}

/* Where another of its type stands at the place of what a link led to, and its
 * address is met at another place: has it moved, or was it let go and something
 * been made where it had lain?  Addresses do not say. */
typedef enum {
    BY_PLACE,
    BY_ADDRESS,
} bearing;

static ia_search
search_link(const path *p, uint32_t i)
{
    const hop *l = &p->links[i];
    ia_search s = {.wanted = l->ref, .place = l->place, .key = l->key};
    ia_search_in(p->links[i - 1].ref, &s, still);
    return s;
}

/* Whether what was found at the address of what a link led to is that. */
static int
is_it(const path *p, uint32_t i, const ia_search *s, bearing how)
{
    const hop *l = &p->links[i];
    if (l->life != NULL)
        return is_alive(l);
    return how == BY_ADDRESS || s->there == l->ref ||
           !ia_has_places(p->links[i - 1].ref) ||
           !is_of_its_type(l, s->there);
}

/* 1: the link holds; 0: what it led to is not there, or another is. */
static int
follow_link(path *p, uint32_t i, bearing how)
{
    hop *l = &p->links[i];
    if (is_where_it_was(l - 1, l))
        return 1;
    ia_search s = search_link(p, i);
    if (s.found < 0 || !is_it(p, i, &s, how))
        return 0;
    l->place = s.found;
    l->key = s.found_key;
    return 1;
}

/* What stands where a link led to: a name that is given another value leads to
 * what is there now. */
static PyObject *
at_link(const path *p, uint32_t i)
{
    ia_search s = search_link(p, i);
    return s.there != 0 && IA_TAG(s.there) == IA_TAG_OBJECT
               ? (PyObject *)s.there
               : NULL;
}

/* By way of another object of the same type: a state that each step makes anew,
 * with more in it.  Whether a container is the one it was, its items say; a
 * value is what goes by the name. */
static int
move_on(path *p, uint32_t i)
{
    PyObject *now = at_link(p, i);
    if (!is_of_its_type(&p->links[i], (uintptr_t)now))
        return 0;
    p->links[i].ref = (uintptr_t)now;
    note_life(&p->links[i]);
    return 1;
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
        const hop *l = &p->links[link];
        if (IA_TAG(l->ref) == IA_TAG_OBJECT && runs_with(l->ref) &&
            Py_TYPE((PyObject *)l->ref) == l->type)
            return link;
    }
    return 0;
}

/* Down to the link before the last; *moved is the first that is another
 * object by now, or the last; 0 where the root is gone. */
static int
follow(path *p, bearing how, uint32_t *moved)
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
        if (!move_on(p, i))
            return 0;
    }
    return 1;
}

static int
take_first(PyObject *op, void *arg)
{
    *(uintptr_t *)arg = (uintptr_t)op;
    return 1;
}

static uintptr_t
first_item(PyObject *op)
{
    uintptr_t first = 0;
    if (!PyAnySet_Check(op) && Py_TYPE(op)->tp_traverse != NULL &&
        ia_is_gc(op))
        Py_TYPE(op)->tp_traverse(op, take_first, &first);
    return first;
}

/* An ordered dict shows its keys first, in their order. */
static entry
first_entry(PyObject *dict)
{
    PyObject *key, *value;
    Py_ssize_t at = 0;
    uintptr_t wanted = PyODict_CheckExact(dict) ? first_item(dict) : 0;
    entry first = {0, 0};
    while (PyDict_Next(dict, &at, &key, &value)) {
        int is_wanted = wanted == 0 || (uintptr_t)key == wanted;
        if (is_wanted || first.item == 0)
            first = (entry){(uintptr_t)value, ia_key_mark(key)};
        if (is_wanted)
            break;
    }
    return first;
}

/* What has been in it for longest, as it is shown; lists and tuples show their
 * last one first. */
static entry
eldest_entry(PyObject *op)
{
    if (PyDict_Check(op))
        return first_entry(op);
    if (PyList_Check(op) || PyTuple_Check(op))
        return (entry){Py_SIZE(op) > 0
                           ? (uintptr_t)PySequence_Fast_GET_ITEM(op, 0)
                           : 0,
                       0};
    return (entry){first_item(op), 0};
}

/* Of a list or a tuple. */
static int
has_item(PyObject *op, uintptr_t item)
{
    for (Py_ssize_t i = 0; i < Py_SIZE(op); i++)
        if ((uintptr_t)PySequence_Fast_GET_ITEM(op, i) == item)
            return 1;
    return 0;
}

/* By its key, too: where another went, a new item may lie. */
static int
dict_has(PyObject *dict, entry wanted)
{
    PyObject *key, *value;
    for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, &value);)
        if ((uintptr_t)value == wanted.item && ia_key_mark(key) == wanted.key)
            return 1;
    return 0;
}

static uintptr_t
newest_item(PyObject *op)
{
    return PyList_Check(op) && Py_SIZE(op) > 0
               ? (uintptr_t)PyList_GET_ITEM(op, Py_SIZE(op) - 1)
               : 0;
}

static int
are_same(entry a, entry b)
{
    return a.item == b.item && a.key == b.key;
}

/* The eldest of `before` while it is there, be it at another place: the first
 * item of a heap is its least, and a cache moves to its end what it was asked
 * for. */
static entry
eldest_since(PyObject *op, entry before)
{
    entry now = eldest_entry(op);
    if (before.item == 0 || are_same(now, before))
        return now;
    return (PyList_Check(op) && has_item(op, before.item)) ||
                   (PyDict_Check(op) && dict_has(op, before))
               ? before
               : now;
}

/* For comparison, as one number. */
static uintptr_t
mark_of(entry e)
{
    return e.item == 0 ? 0 : (e.item ^ e.key) | 1;
}

/* The node behind a gradient, be that a Python object or none. */
typedef struct {
    ia_sink sink;
    void *node;
} gradient_sink;

static int
meet_gradient(ia_sink *sink, PyObject *op, ia_edge_kind kind, const char *name,
              Py_ssize_t index)
{
    gradient_sink *g = (gradient_sink *)sink;
    (void)name, (void)index;
    if (kind == IA_EDGE_GRAD && ia_kind_of(Py_TYPE(op)) == IA_KIND_TENSOR)
        g->node = ia_the_framework->grad_fn_of(op);
    return 0;
}

static int
meet_node(ia_sink *sink, void *node, ia_edge_kind kind, const char *name,
          Py_ssize_t index)
{
    gradient_sink *g = (gradient_sink *)sink;
    (void)index;
    if (kind == IA_EDGE_GRAD_FN && name != NULL && strcmp(name, "grad") == 0)
        g->node = node;
    return 0;
}

static int
pass_storage(ia_sink *sink, const ia_storage *storage, ia_edge_kind kind,
             const char *name, Py_ssize_t index)
{
    (void)sink, (void)storage, (void)kind, (void)name, (void)index;
    return 0;
}

/* What made a tensor; of one that nothing made, what made its gradient: that
 * hangs on it, and a parameter that no optimizer clears adds up. */
static void *
graph_of(PyObject *op)
{
    gradient_sink g = {{meet_gradient, meet_node, pass_storage, NULL}, NULL};
    void *node = ia_the_framework->grad_fn_of(op);
    if (node == NULL)
        ia_the_framework->expand_object(op, IA_KIND_TENSOR, &g.sink);
    return node != NULL ? node : g.node;
}

static void
read_tensor(path *p, PyObject *op, ia_visit *v)
{
    void *node = v->graph = graph_of(op);
    ia_storage memory;
    if (ia_the_framework->storage_of(op, &memory))
        v->bytes = memory.bytes;
    if (node == NULL || node == p->node)
        return;
    int back = p->node == NULL ? -1
                               : ia_graphs_lead_back(node, p->node, p->sequence,
                                                     IA_NODES_BACK);
    if (back >= 0)
        v->recurs = back ? IA_LEADS_BACK : IA_MADE_ANEW;
    p->node = node;
    p->sequence = ia_the_framework->node_sequence(node);
}

/* One that holds objects, or has attributes, may grow by these. */
static void
read_array(PyObject *op, ia_visit *v)
{
    ia_tensor_info info;
    if (v->names >= 0 || ia_ndarray_has_objects(op))
        return;
    ia_ndarray_describe(op, &info);
    v->bytes = info.storage.bytes;
}

/* Where they have a dict: from some 30 on, or once somebody asked for it; the
 * holder may be that dict. */
static Py_ssize_t
count_names(PyObject *op)
{
    PyObject *dict = PyDict_Check(op) ? op : ia_get_instance_dict(op);
    return dict != NULL && PyDict_Check(dict) ? PyDict_GET_SIZE(dict) : -1;
}

static void
read_holder(path *p, PyObject *op, ia_visit *v)
{
    v->value = (uintptr_t)op;
    v->linked = p->linked;
    if (p->linked) {
        v->length = p->length; /* no item of the one before is one of its */
    } else if (p->container && ia_is_being_sorted(op)) {
        v->length = p->length;
        v->eldest = mark_of(p->eldest);
    } else if (p->container) {
        p->length = v->length = ia_container_length(op);
        p->eldest = eldest_since(op, p->eldest);
        v->eldest = mark_of(p->eldest);
        v->first = PyDict_Check(op) ? v->eldest
                   : v->length > 0  ? first_item(op)
                                    : 0;
        p->newest = newest_item(op);
    } else if (still && ia_kind_of(Py_TYPE(op)) == IA_KIND_TENSOR) {
        read_tensor(p, op, v);
    } else {
        v->names = count_names(op);
        if (ia_kind_of(Py_TYPE(op)) == IA_KIND_NDARRAY)
            read_array(op, v);
    }
}

static int
has_its_eldest(const path *p, PyObject *op)
{
    return p->linked || p->eldest.item == 0 ||
           are_same(eldest_since(op, p->eldest), p->eldest);
}

/* The pair at one index of a pair, or NULL. */
static PyObject *
pair_at(PyObject *pair, Py_ssize_t i)
{
    PyObject *item = PySequence_Fast_GET_ITEM(pair, i);
    return item != NULL && Py_TYPE(item) == Py_TYPE(pair) &&
                   Py_SIZE(item) == Py_SIZE(pair)
               ? item
               : NULL;
}

/* Does it lead on to the one of the last visit, as `(value, pairs)` does, by the
 * same index of each?  That one is alive, then. */
static int
is_in_front(const path *p, PyObject *op)
{
    uintptr_t wanted = p->links[p->count - 1].ref;
    if ((!PyTuple_CheckExact(op) && !PyList_CheckExact(op)) ||
        Py_SIZE(op) != p->length)
        return 0;
    int looked = 0;
    for (Py_ssize_t i = 0; i < Py_SIZE(op) && looked < MOST_PAIRS; i++) {
        PyObject *pair = op;
        for (; pair != NULL && looked < MOST_PAIRS; looked++) {
            pair = pair_at(pair, i);
            if ((uintptr_t)pair == wanted)
                return 1;
        }
    }
    return 0;
}

/* Is it the container of the last visit, made anew?  With more in it, it has its
 * eldest item, which is alive as long as one of the two has it; a list that was
 * cut has its newest. */
static int
stands_in(const path *p, PyObject *op)
{
    if (Py_TYPE(op) != p->links[p->count - 1].type)
        return 0;
    if (ia_container_length(op) < p->length)
        return p->newest != 0 && PyList_Check(op) && has_item(op, p->newest);
    return p->eldest.item != 0 && has_its_eldest(p, op);
}

/* The container of the last visit, or the one that stands in for it, or NULL.
 * At its address, but in another place, may lie another by now: the eldest item
 * says which of the two is the one that it was. */
static PyObject *
container_now(path *p)
{
    uint32_t i = p->count - 1;
    hop *last = &p->links[i], before = *last;
    PyObject *same =
        follow_link(p, i, BY_ADDRESS) ? (PyObject *)last->ref : NULL;
    if (same != NULL &&
        (last->place == before.place || has_its_eldest(p, same)))
        return same;
    hop elsewhere = *last;
    *last = before;
    PyObject *there = at_link(p, i);
    int in_front = is_of_its_type(last, (uintptr_t)there) &&
                   is_in_front(p, there);
    p->linked |= in_front;
    if (in_front || (there != NULL && stands_in(p, there))) {
        last->ref = (uintptr_t)there;
        note_life(last);
        return there;
    }
    *last = elsewhere;
    return same;
}

/* An object of the user's is the one that it was while that lives; any other
 * value is what goes by the name. */
static PyObject *
value_now(path *p)
{
    uint32_t i = p->count - 1;
    hop *last = &p->links[i];
    if (last->life == NULL)
        return at_link(p, i);
    return follow_link(p, i, BY_PLACE) || move_on(p, i)
               ? (PyObject *)last->ref
               : at_link(p, i);
}

/* The holder as the path leads to it, or NULL; *moved as by follow(). */
static PyObject *
led_to(path *p, bearing how, uint32_t *moved)
{
    if (!follow(p, how, moved))
        return NULL;
    return p->container ? container_now(p) : value_now(p);
}

static void
keep_links(const path *p, hop *kept)
{
    memcpy(kept, p->links, p->count * sizeof *kept);
    for (uint32_t i = 0; i < p->count; i++)
        Py_XINCREF(kept[i].life);
}

/* Both take the references of those that were kept. */
static void
drop_links(const path *p, const hop *kept)
{
    for (uint32_t i = 0; i < p->count; i++)
        Py_XDECREF(kept[i].life);
}

static void
put_back_links(path *p, const hop *kept)
{
    drop_links(p, p->links);
    memcpy(p->links, kept, p->count * sizeof *kept);
}

/* By places first: what is made anew each time lies where others of its kind
 * lay.  A container without the eldest item of the last visit is another one. */
static PyObject *
holder_now(path *p)
{
    hop before[MOST_LINKS];
    uint32_t moved;
    keep_links(p, before);
    PyObject *op = led_to(p, BY_PLACE, &moved);
    if (moved < p->count - 1 &&
        (op == NULL || (p->container && !has_its_eldest(p, op)))) {
        put_back_links(p, before);
        op = led_to(p, BY_ADDRESS, &moved);
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
    read_holder(p, op, &v);
    return v;
}

ia_visit
ia_visit_path(uint32_t number, ia_chain *chain)
{
    path *p = find(number);
    if (p == NULL)
        return (ia_visit){
            .state = IA_PATH_UNKNOWN, .length = -1, .names = -1};
    if (ia_the_framework == NULL)
        return visit_path(p);
    still = ia_the_framework->walk_begin(0);
    ia_visit v = visit_path(p);
    if (chain != NULL && still && v.state == IA_PATH_INTACT)
        ia_chain_read(chain, (PyObject *)v.value);
    ia_the_framework->walk_end();
    still = 0;
    return v;
}

PyObject *
ia_visit_holder(uint32_t number)
{
    ia_visit v = ia_visit_path(number, NULL);
    return v.state == IA_PATH_INTACT ? (PyObject *)v.value : NULL;
}
