/* What a walk notes of the memory that it comes to. */

#include "../base/compat.h"
#include "../base/device_name.h"
#include "walk.h"

/* A storage that is new since the first pass is not ours to judge; one that
 * a pass below this one reached keeps its mark. */
void
ia_walk_mark(const ia_walk *w, uint32_t i)
{
    ia_marks *marks = w->marks;
    if (i >= marks->limit || marks->of_storage[i] == IA_MARK_KEPT)
        return;
    if (w->libraries &&
        w->storages->items[i].entry < w->storages->near_entries)
        w->storages->in_libraries = 1;
    int others = marks->of_storage[i] != 0 &&
                 marks->of_storage[i] != marks->stamp;
    marks->of_storage[i] = others && w->claims != NULL ? IA_MARK_SHARED
                                                       : marks->stamp;
}

static void
note_storage(const ia_walk *w, const ia_reached *item)
{
    ia_crossings *c = w->crossings;
    if (c != NULL && c->open && item->entry < c->first)
        ia_crossings_add(c, item->key | IA_TAG_MEMORY);
}

void
ia_walk_keep(const ia_walk *w, uint32_t first, uint32_t end)
{
    for (uint32_t i = 0; i < w->marks->limit; i++) {
        uint32_t entry = w->storages->items[i].entry;
        if (entry >= first && entry < end)
            ia_walk_mark(w, i);
    }
}

/* How much of its storage a tensor sees, from end to end; 0: unknown. */
static uint64_t
span_of(const ia_walk *w, uint32_t entry)
{
    ia_tensor_info info;
    uintptr_t ref = w->queue[entry].ref;
    return IA_TAG(ref) == IA_TAG_OBJECT &&
                   ia_kind_of(Py_TYPE((PyObject *)ref)) == IA_KIND_TENSOR &&
                   ia_the_framework->describe_tensor((PyObject *)ref, &info)
               ? info.span
               : 0;
}

/* Is it a part that the storage was reached by, where this tensor has more of
 * it?  What keeps the whole is told of, not what looks at some of it, unless it
 * is that which keeps the whole: a slice has what it is a slice of. */
static int
has_more(const ia_walk *w, const ia_reached *item)
{
    if (w->queue[w->parent].parent == item->entry ||
        (w->libraries && item->entry < w->storages->near_entries))
        return 0;
    uint64_t more = span_of(w, w->parent);
    uint64_t part = more == 0 ? 0 : span_of(w, item->entry);
    return part != 0 && more > part;
}

/* A storage that something else has led to before. */
static void
meet_again(ia_walk *w, ia_reached *item, ia_edge_kind kind)
{
    note_storage(w, item);
    if (kind != IA_EDGE_STORAGE || w->parent == item->entry)
        return;
    uint32_t beside = w->parent;
    if (has_more(w, item)) {
        beside = item->entry;
        item->entry = w->parent;
    }
    ia_storages_add_beside(w->storages, item, beside);
}

int
ia_walk_meet(ia_sink *sink, const ia_storage *storage, ia_edge_kind kind,
             const char *name, Py_ssize_t index)
{
    ia_walk *w = (ia_walk *)sink;
    (void)name, (void)index;
    ia_reached *item = ia_storages_get(w->storages, storage);
    if (item == NULL) {
        w->failed = 1;
        return 0;
    }
    uintptr_t ref = item->key | IA_TAG_MEMORY;
    if (ia_walk_is_cut(w, ref))
        return 0;
    if (w->marks != NULL) {
        ia_walk_mark(w, (uint32_t)(item - w->storages->items));
        return 0;
    }
    if (item->entry == IA_NO_ENTRY)
        item->entry = kind == IA_EDGE_ATTRIBUTE
                          ? ia_walk_append(w, ref, w->parent)
                          : w->parent;
    else
        meet_again(w, item, kind);
    ia_purpose purpose = kind == IA_EDGE_GRAD    ? IA_FOR_GRADIENT
                         : kind == IA_EDGE_SAVED ? IA_FOR_GRAPH
                         : item->device == IA_DEVICE_NUMPY
                             ? IA_FOR_ARRAY
                             : IA_FOR_UNKNOWN;
    if (purpose > item->purpose)
        item->purpose = (uint16_t)purpose;
    return 0;
}
