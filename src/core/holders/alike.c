/* What holders that differ by an index keep together.
 *
 * `losses[y].append(loss)` for each loss of a batch: the batch's graph hangs on
 * several lists of one dict, views of one memory lie in several, and emptying
 * one list frees next to nothing.  They grow by one statement and are told as
 * one, so what counts is what emptying all of them frees.
 */

#include "../base/compat.h"
#include "../base/ptrmap.h"
#include "../base/read.h"
#include "../ledger/ledger.h"
#include "alike.h"
#include "cutting.h"
#include "parting.h"
#include "places.h"

#include <stdlib.h>

#define IN_NO_SET UINT32_MAX

/* From a tensor up to the container that has it as an item, or in a tuple, an
 * object and its dict. */
#define MOST_HOPS 4
/* From a root down to a container that may be like others: behind as many links
 * of a chain lie many, and to ask for the way to each takes its square. */
#define MOST_DEPTH 64

/* Holders that differ by an index. */
typedef struct {
    uint64_t way; /* the types from the root down to each */
    const ia_source_frame *made; /* a line that made what each has */
    uint32_t first; /* holder */
    uint32_t members;
    int contended; /* some have something in common with others */
} likes;

typedef struct {
    const ia_walk *w;
    likes sets[IA_MAX_CUT_GROUPS];
    uint32_t count;
    uint32_t set[IA_MAX_CUT_GROUPS]; /* by holder: its set, or IN_NO_SET */
    ia_cut *cuts; /* owned; group = set */
    uint32_t ncuts, capacity;
    ia_ptrmap indexed; /* containers whose items are listed, */
    ia_ptrmap items;   /* and which of them stand at an index */
    ia_ptrmap done;    /* entries that lose references, and items lost */
    ia_ptrmap asked;   /* by entry and function: the set, or IN_NO_SET - 1 */
} alike;

/* -- which differ by an index ------------------------------------------------ */

static uintptr_t
key_of(uint32_t entry, uintptr_t ref)
{
    return (ref ^ ((uint64_t)entry + 1) * UINT64_C(0x9E3779B97F4A7C15)) | 1;
}

/* As a path's pattern takes it: some digit, and no bracket. */
static int
has_digit(PyObject *text)
{
    Py_ssize_t n = PyUnicode_GET_LENGTH(text);
    int found = 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        Py_UCS4 c = PyUnicode_READ_CHAR(text, i);
        if (c == ']')
            return 0;
        found |= c >= '0' && c <= '9';
    }
    return found;
}

/* What a printed path leaves out of a holder's name in comparing it. */
static int
is_index(PyObject *key)
{
    int overflow;
    if (PyUnicode_CheckExact(key))
        return has_digit(key);
    return PyLong_CheckExact(key) &&
           (PyLong_AsLongAndOverflow(key, &overflow) >= 0 || overflow > 0);
}

/* 0, or -1 when memory is short. */
static int
list_indexed(alike *a, uint32_t up)
{
    PyObject *dict = (PyObject *)a->w->queue[up].ref, *key, *value;
    Py_ssize_t pos = 0;
    if (ia_ptrmap_get(&a->indexed, (uintptr_t)up + 1) != IA_PTRMAP_NONE)
        return 0;
    if (ia_ptrmap_set(&a->indexed, (uintptr_t)up + 1, 0) < 0)
        return -1;
    while (PyDict_Next(dict, &pos, &key, &value))
        if (is_index(key) && ia_is_gc(value) &&
            ia_ptrmap_set(&a->items, key_of(up, (uintptr_t)value), 0) < 0)
            return -1;
    return 0;
}

/* Does an item stand in its container at an index?  -1: memory is short. */
static int
stands_at_index(alike *a, uint32_t up, uint32_t item)
{
    uintptr_t ref = IA_ADDRESS(a->w->queue[item].ref);
    if (!ia_entry_is_container(a->w, up))
        return 0;
    if (!PyDict_Check((PyObject *)a->w->queue[up].ref))
        return 1;
    if (list_indexed(a, up) < 0)
        return -1;
    return ia_ptrmap_get(&a->items, key_of(up, ref)) != IA_PTRMAP_NONE;
}

/* Are they one attribute, or one key, of two objects? */
static int
go_by_one_name(const ia_walk *w, uint32_t one, uint32_t other)
{
    uint32_t up = w->queue[one].parent, other_up = w->queue[other].parent;
    ia_search x = {.wanted = w->queue[one].ref, .place = -1};
    ia_search y = {.wanted = w->queue[other].ref, .place = -1};
    ia_search_in(w->queue[up].ref, &x, 0);
    ia_search_in(w->queue[other_up].ref, &y, 0);
    return x.found >= 0 && y.found >= 0 && x.found_key == y.found_key &&
           (x.found_key != 0 || x.found == y.found);
}

/* -1: memory is short. */
static int
stand_at_indices(alike *a, uint32_t one, uint32_t other)
{
    int first = stands_at_index(a, a->w->queue[one].parent, one);
    return first == 1 ? stands_at_index(a, a->w->queue[other].parent, other)
                      : first;
}

/* The same types stand on both ways: so do the same names, or indices, below
 * the container where they part.  -1: memory is short. */
static int
differ_by_index(alike *a, uint32_t one, uint32_t other)
{
    const ia_entry *queue = a->w->queue;
    while (one != other) {
        uint32_t x = queue[one].parent, y = queue[other].parent;
        if (x == IA_NO_ENTRY || y == IA_NO_ENTRY)
            return 0;
        int alike = stand_at_indices(a, one, other);
        if (alike == 0 && x != y)
            alike = go_by_one_name(a->w, one, other);
        if (alike != 1)
            return alike;
        one = x;
        other = y;
    }
    return 1;
}

static const ia_source_frame *
made_at(uint32_t site)
{
    ia_ledger_lock();
    const ia_source_frame *source = ia_site_source(site);
    ia_ledger_unlock();
    return source; /* sites are pinned */
}

static int
is_of_one_function(const ia_source_frame *one, const ia_source_frame *other)
{
    return one != NULL && other != NULL && one->file == other->file &&
           one->function == other->function;
}

/* Of the types on the way to a container; 0: it is none, or too deep. */
static uint64_t
way_to(const ia_walk *w, uint32_t entry)
{
    uint32_t depth = 0;
    if (!ia_entry_is_container(w, entry))
        return 0;
    for (uint32_t up = entry; up != IA_NO_ENTRY; up = w->queue[up].parent)
        if (depth++ == MOST_DEPTH)
            return 0;
    return ia_way_of(w, entry) | 1;
}

/* The set that an entry belongs to, by the way to it, with what that line made;
 * IN_NO_SET: to none.  0, or -1 when memory is short. */
static int
find_set(alike *a, const ia_holders *holders, uint32_t entry, uint64_t way,
         const ia_source_frame *made, uint32_t *found)
{
    *found = IN_NO_SET;
    for (uint32_t i = 0; way != 0 && i < a->count; i++) {
        const likes *set = &a->sets[i];
        uint32_t first = holders->items[set->first].entry;
        if (set->way != way || !is_of_one_function(set->made, made))
            continue;
        int like = differ_by_index(a, first, entry);
        if (like < 0)
            return -1;
        if (like) {
            *found = i;
            return 0;
        }
    }
    return 0;
}

/* May others differ from it by an index?  -1: memory is short. */
static int
may_have_likes(alike *a, uint32_t entry)
{
    const ia_entry *queue = a->w->queue;
    for (; queue[entry].parent != IA_NO_ENTRY; entry = queue[entry].parent) {
        int at_index = stands_at_index(a, queue[entry].parent, entry);
        if (at_index != 0)
            return at_index;
    }
    return 0;
}

static int
has_some_in_common(const ia_holder *k, const ia_cost *cost)
{
    return cost->contended || cost->storages < k->count;
}

static int
list_sets(alike *a, const ia_groups *groups, const ia_holders *holders,
          const ia_cost *costs)
{
    for (uint32_t i = 0; i < holders->count; i++) {
        const ia_holder *k = &holders->items[i];
        uint32_t *set = &a->set[i];
        const ia_source_frame *made = made_at(groups->items[k->primary].site);
        *set = IN_NO_SET;
        uint64_t way = way_to(a->w, k->entry);
        int may = k->parts < 2 || way == 0 ? 0 : may_have_likes(a, k->entry);
        if (may < 0)
            return -1;
        if (!may)
            continue;
        if (find_set(a, holders, k->entry, way, made, set) < 0)
            return -1;
        if (*set == IN_NO_SET) {
            *set = a->count++;
            a->sets[*set] = (likes){way, made, i, 0, 0};
        }
        a->sets[*set].members++;
        a->sets[*set].contended |= has_some_in_common(k, &costs[i]);
    }
    return 0;
}

/* -- what all of them lose --------------------------------------------------- */

static int
is_contended(const alike *a, uint32_t set)
{
    return set != IN_NO_SET && a->sets[set].contended;
}

static int
is_measured(const alike *a, uint32_t set)
{
    return is_contended(a, set) && a->sets[set].members >= 2;
}

static int
list_members_cuts(alike *a, const ia_holders *holders)
{
    for (uint32_t i = 0; i < holders->ncuts; i++) {
        ia_cut cut = holders->cuts[i];
        cut.group = a->set[cut.group];
        if (!is_contended(a, cut.group))
            continue;
        if (ia_ptrmap_set(&a->done, (uintptr_t)cut.entry + 1, 0) < 0 ||
            ia_cut_add(&a->cuts, &a->capacity, &a->ncuts, cut) < 0)
            return -1;
    }
    return 0;
}

/* Many storages lie in one container: it is asked about once. */
static int
recall_set(alike *a, const ia_holders *holders, uint32_t entry,
           const ia_source_frame *made, uint32_t *found)
{
    uintptr_t key = key_of(entry, made == NULL ? 0 : (uintptr_t)made->function);
    uint32_t known = ia_ptrmap_get(&a->asked, key);
    *found = IN_NO_SET;
    if (known != IA_PTRMAP_NONE) {
        *found = known == IN_NO_SET - 1 ? IN_NO_SET : known;
        return 0;
    }
    uint64_t way = way_to(a->w, entry);
    if (find_set(a, holders, entry, way, made, found) < 0)
        return -1;
    return ia_ptrmap_set(&a->asked, key,
                         *found == IN_NO_SET ? IN_NO_SET - 1 : *found);
}

/* Cuts a tensor off the container that has it, if that is like a holder. */
static int
cut_off(alike *a, const ia_holders *holders, const ia_source_frame *made,
        uint32_t entry)
{
    const ia_entry *queue = a->w->queue;
    uint32_t up = queue[entry].parent, set;
    for (int hop = 0; hop < MOST_HOPS && up != IA_NO_ENTRY; hop++) {
        if (ia_ptrmap_get(&a->done, (uintptr_t)up + 1) != IA_PTRMAP_NONE ||
            ia_ptrmap_get(&a->done, (uintptr_t)entry + 1) != IA_PTRMAP_NONE)
            return 0;
        if (recall_set(a, holders, up, made, &set) < 0)
            return -1;
        if (is_contended(a, set)) {
            ia_cut cut = {queue[up].ref, queue[entry].ref, set, up};
            a->sets[set].members++;
            return ia_ptrmap_set(&a->done, (uintptr_t)entry + 1, 0) < 0
                       ? -1
                       : ia_cut_add(&a->cuts, &a->capacity, &a->ncuts, cut);
        }
        entry = up;
        up = queue[entry].parent;
    }
    return 0;
}

/* Views of one memory may lie in any of them. */
static int
list_others_cuts(alike *a, const ia_holders *holders)
{
    const ia_storages *all = a->w->storages;
    for (uint32_t i = 0; i < all->count; i++) {
        const ia_reached *r = &all->items[i];
        if (r->entry == IA_NO_ENTRY || !r->in_ledger)
            continue;
        const ia_source_frame *made = made_at(r->site);
        if (cut_off(a, holders, made, r->entry) < 0)
            return -1;
        for (uint32_t at = r->beside; at != 0; at = all->beside[at].next)
            if (cut_off(a, holders, made, all->beside[at].entry) < 0)
                return -1;
    }
    return 0;
}

/* One that has no like is measured by then: whether some are left. */
static int
leave_out_singles(alike *a)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < a->ncuts; i++)
        if (is_measured(a, a->cuts[i].group))
            a->cuts[kept++] = a->cuts[i];
    a->ncuts = kept;
    return kept > 0;
}

/* -- who is charged ---------------------------------------------------------- */

static void
add_alone(ia_cost *all, const ia_cost *own)
{
    all->bytes += own->bytes;
    all->storages += own->storages;
    for (int i = 0; i < own->non; i++)
        ia_cost_add_on(all, own->on[i].device, own->on[i].bytes);
}

/* Less than half of what its lines have in them: others hold that, too, or it
 * goes by more references than the walk has met, as views of an array. */
static int
frees_little(const alike *a, const ia_holders *holders, uint32_t set,
             const ia_cost *cost)
{
    uint64_t storages = 0;
    for (uint32_t i = 0; i < holders->count; i++)
        if (a->set[i] == set)
            storages += holders->items[i].count;
    return cost->nodes == 0 && 2 * cost->storages < storages;
}

/* What each has alone was counted by then, once; how many of its items nothing
 * else has stays its own. */
static void
charge(const alike *a, const ia_holders *holders, ia_cost *found,
       ia_cost *costs)
{
    for (uint32_t i = 0; i < holders->count; i++)
        if (is_measured(a, a->set[i]))
            add_alone(&found[a->set[i]], &costs[i]);
    for (uint32_t i = 0; i < holders->count; i++) {
        const ia_cost own = costs[i];
        uint32_t set = a->set[i];
        if (!is_measured(a, set) ||
            frees_little(a, holders, set, &found[set]))
            continue;
        int first = i == a->sets[set].first;
        costs[i] = first ? found[set] : (ia_cost){0};
        costs[i].items = own.items;
        costs[i].freed_items = own.freed_items;
        costs[i].with_alike = 1;
    }
}

/* Others are nobody's like any more.  Whether some are left. */
static int
leave_out_uncontended(alike *a)
{
    int left = 0;
    for (uint32_t i = 0; i < a->count; i++) {
        left |= a->sets[i].contended;
        if (!a->sets[i].contended)
            a->sets[i].made = NULL;
    }
    return left;
}

int
ia_alike_measure(const ia_walk *w, const ia_groups *groups,
                 const ia_holders *holders, ia_cost *costs)
{
    alike a = {.w = w};
    ia_cost *found = NULL;
    int result = list_sets(&a, groups, holders, costs);
    if (result < 0 || !leave_out_uncontended(&a))
        goto done;
    result = -1;
    found = calloc(a.count, sizeof *found);
    if (found == NULL || list_members_cuts(&a, holders) < 0 ||
        list_others_cuts(&a, holders) < 0)
        goto done;
    if (leave_out_singles(&a)) {
        if (ia_cuts_measure(w, a.cuts, a.ncuts, a.count, found, NULL, NULL) <
            0)
            goto done;
        charge(&a, holders, found, costs);
    }
    result = 0;
done:
    ia_ptrmap_free(&a.indexed);
    ia_ptrmap_free(&a.items);
    ia_ptrmap_free(&a.done);
    ia_ptrmap_free(&a.asked);
    free(a.cuts);
    free(found);
    return result;
}
