/* Who reads it still: saved tensors, compared by their memory. */

#include "../base/compat.h"
#include "../base/build.h"
#include "needed.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct {
    ia_sink sink; /* first: the framework calls back through it */
    ia_walk *w;
    ia_needed *of;
    ia_ptrmap index; /* key -> place in `of` */
    uint32_t entry;  /* of the node that is asked */
    int failed;
} search;

static void
note(search *s, uint32_t i, ia_edge_kind kind, const char *name,
     Py_ssize_t index)
{
    ia_needed *n = &s->of[i];
    const char *what = kind == IA_EDGE_PACKED ? "packed" : "saved";
    if (n->first == NULL)
        n->first = calloc(IA_MAX_READERS, sizeof *n->first);
    if (n->first == NULL) {
        s->failed = 1;
        return;
    }
    if (n->count < IA_MAX_READERS) {
        ia_reader *r = &n->first[n->count];
        r->entry = s->entry;
        if (name != NULL)
            snprintf(r->saved, sizeof r->saved, "%s[%s]", what, name);
        else
            snprintf(r->saved, sizeof r->saved, "%s[%zd]", what, index);
    }
    n->count++;
}

static int
sink_storage(ia_sink *sink, const ia_storage *storage, ia_edge_kind kind,
             const char *name, Py_ssize_t index)
{
    search *s = (search *)sink;
    if (kind != IA_EDGE_SAVED && kind != IA_EDGE_PACKED)
        return 0;
    const ia_reached *item = ia_storages_get(s->w->storages, storage);
    uint32_t i = item == NULL ? IA_PTRMAP_NONE
                              : ia_ptrmap_get(&s->index, item->key);
    if (i != IA_PTRMAP_NONE)
        note(s, i, kind, name, index);
    return 0;
}

static int
sink_object(ia_sink *sink, PyObject *op, ia_edge_kind kind, const char *name,
            Py_ssize_t index)
{
    ia_storage storage;
    /* What a custom Function saved lies in its ctx. */
    if (kind == IA_EDGE_FUNCTION &&
        ia_kind_of(Py_TYPE(op)) == IA_KIND_FUNCTION)
        return ia_the_framework->expand_object(op, IA_KIND_FUNCTION, sink);
    if ((kind == IA_EDGE_SAVED || kind == IA_EDGE_PACKED) &&
        ia_kind_of(Py_TYPE(op)) == IA_KIND_TENSOR &&
        ia_the_framework->storage_of(op, &storage))
        return sink_storage(sink, &storage, kind, name, index);
    return 0;
}

static int
sink_node(ia_sink *sink, void *node, ia_edge_kind kind, const char *name,
          Py_ssize_t index)
{
    (void)sink, (void)node, (void)kind, (void)name, (void)index;
    return 0;
}

int
ia_needed_find(ia_walk *w, ia_needed *of, uint32_t count)
{
    search s = {.sink = {sink_object, sink_node, sink_storage}, .w = w,
                .of = of};
    for (uint32_t i = 0; i < count && !s.failed; i++) {
        uint32_t known = of[i].key == 0 ? i
                                        : ia_ptrmap_get(&s.index, of[i].key);
        of[i].same = known == IA_PTRMAP_NONE ? i : known;
        if (known == IA_PTRMAP_NONE &&
            ia_ptrmap_set(&s.index, of[i].key, i) < 0)
            s.failed = 1;
    }
    for (uint32_t e = 0; w->graph && e < w->count && !s.failed; e++) {
        uintptr_t ref = w->queue[e].ref;
        if (IA_TAG(ref) != IA_TAG_NODE)
            continue;
        s.entry = e;
        ia_the_framework->expand_node((void *)IA_ADDRESS(ref), &s.sink);
    }
    ia_ptrmap_free(&s.index);
    return s.failed ? -1 : 0;
}

void
ia_needed_free(ia_needed *of, uint32_t count)
{
    for (uint32_t i = 0; of != NULL && i < count; i++)
        free(of[i].first);
}

PyObject *
ia_needed_build(const ia_walk *w, const ia_needed *of, Py_ssize_t i)
{
    const ia_needed *n = &of[of[i].same];
    if (!w->graph || n->key == 0)
        return Py_NewRef(Py_None);
    PyObject *list = PyList_New(0);
    uint32_t told = n->count < IA_MAX_READERS ? n->count : IA_MAX_READERS;
    for (const ia_reader *r = n->first; list && told > 0; told--, r++) {
        char node[128];
        ia_the_framework->describe_node(
            (void *)IA_ADDRESS(w->queue[r->entry].ref), node, sizeof node);
        ia_list_add(&list,
                    Py_BuildValue("(NN)", ia_str(node), ia_str(r->saved)));
    }
    return list ? Py_BuildValue("(IN)", n->count, list) : NULL;
}
