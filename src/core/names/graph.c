/* Names for the references of the autograd graph: asked again of the
 * framework, which tells what each one is. */

#include "../base/compat.h"
#include "../base/kinds.h"
#include "graph.h"

#include <stdio.h>
#include <string.h>

typedef struct {
    ia_sink sink;
    uintptr_t child;
    int found;
    ia_edge_kind kind;
    Py_ssize_t index;
    char name[120];
} graph_search;

static int
match(ia_sink *sink, uintptr_t ref, ia_edge_kind kind, const char *name,
      Py_ssize_t index)
{
    graph_search *s = (graph_search *)sink;
    if (ref != s->child || s->found)
        return 0;
    s->found = 1;
    s->kind = kind;
    s->index = index;
    snprintf(s->name, sizeof s->name, "%s", name ? name : "");
    return 0;
}

static int
match_object(ia_sink *sink, PyObject *op, ia_edge_kind kind, const char *name,
             Py_ssize_t index)
{
    return match(sink, (uintptr_t)op, kind, name, index);
}

static int
match_node(ia_sink *sink, void *node, ia_edge_kind kind, const char *name,
           Py_ssize_t index)
{
    return match(sink, (uintptr_t)node | IA_TAG_NODE, kind, name, index);
}

static int
match_storage(ia_sink *sink, const ia_storage *storage, ia_edge_kind kind,
              const char *name, Py_ssize_t index)
{
    int stop = match(sink, storage->data | IA_TAG_MEMORY, kind, name, index);
    return stop ? stop : match(sink, storage->impl | IA_TAG_MEMORY, kind, name,
                               index);
}

static ia_reading
set_saved(const graph_search *s, const char *what, ia_edge_text *out)
{
    if (s->name[0])
        return ia_edge_set(out, what, 0, ".%s[%s]", what, s->name);
    return ia_edge_set(out, what, 0, ".%s[%zd]", what, s->index);
}

/* The way over a saved tensor, a gradient or a base that Python doesn't
 * know. */
static void
put_way(const graph_search *s, char *buf, size_t size)
{
    buf[0] = 0;
    if (s->index >= 0 && s->name[0])
        snprintf(buf, size, ".saved[%s]", s->name);
    else if (s->index >= 0)
        snprintf(buf, size, ".saved[%zd]", s->index);
    else if (s->name[0])
        snprintf(buf, size, ".%s", s->name);
}

static ia_reading
set_grad_fn(const graph_search *s, ia_edge_text *out)
{
    char node[100], way[140];
    ia_ref_type_name(s->child, node, sizeof node);
    put_way(s, way, sizeof way);
    return ia_edge_set(out, "grad_fn", 0, "%s.grad_fn\xE2\x86\x92%s", way,
                       node);
}

static ia_reading
set_base(const graph_search *s, ia_edge_text *out)
{
    char way[140];
    put_way(s, way, sizeof way);
    return ia_edge_set(out, "base", !way[0], "%s._base", way);
}

static ia_reading
set_graph_edge(const graph_search *s, ia_edge_text *out)
{
    char node[100];
    switch (s->kind) {
    case IA_EDGE_GRAD_FN:
        return set_grad_fn(s, out);
    case IA_EDGE_NEXT:
    case IA_EDGE_NODE:
        ia_ref_type_name(s->child, node, sizeof node);
        return ia_edge_set(out, "next", 0, "\xE2\x86\x92%s", node);
    case IA_EDGE_SAVED:
        return set_saved(s, "saved", out);
    case IA_EDGE_PACKED:
        return set_saved(s, "packed", out);
    case IA_EDGE_VARIABLE:
        return ia_edge_set(out, "variable", 0, ".variable");
    case IA_EDGE_GRAD:
        return s->name[0] ? ia_edge_set(out, "grad", 0, ".<%s>", s->name)
                          : ia_edge_set(out, "grad", 1, ".grad");
    case IA_EDGE_BASE:
        return set_base(s, out);
    case IA_EDGE_HOOK:
        /* A tensor's hooks are an attribute of it: "_backward_hooks". */
        return s->name[0] == '_' ? ia_edge_set(out, "hook", 1, ".%s", s->name)
                                 : ia_edge_set(out, "hook", 0, ".<hook>");
    case IA_EDGE_FUNCTION:
        return ia_edge_set(out, "ctx", 0, ".<ctx>");
    case IA_EDGE_SHARD:
        if (s->index < 0)
            return ia_edge_set(out, "shard", 1, "._arrays");
        return ia_edge_set(out, "shard", 1, ".addressable_shards[%zd].data",
                           s->index);
    case IA_EDGE_RECORDED:
        return ia_edge_set(out, "recorded", 0, ".<recorded>[%zd]", s->index);
    case IA_EDGE_ATTRIBUTE:
        if (s->name[0] == '[') /* of a list or dict of a script's */
            return ia_edge_set(out, "script", strchr(s->name, '<') == NULL,
                               "%s", s->name);
        return ia_edge_set(out, "script", 0, IA_SCRIPT_PREFIX ".%s",
                           s->name);
    case IA_EDGE_STORAGE:
        return ia_edge_set(out, "storage", 0, ".<storage>");
    case IA_EDGE_STORAGE_OBJECT:
        return ia_edge_set(out, "storage", 1, ".untyped_storage()");
    }
    return (ia_reading){0};
}

static graph_search
start_search(uintptr_t child)
{
    return (graph_search){
        .sink = {match_object, match_node, match_storage, NULL},
        .child = child,
    };
}

ia_reading
ia_name_graph_edge(uintptr_t parent, uintptr_t child, ia_edge_text *out)
{
    graph_search s = start_search(child);
    ia_the_framework->expand_node((void *)IA_ADDRESS(parent), &s.sink);
    if (s.found)
        return set_graph_edge(&s, out);
    return ia_edge_set(out, "reference", 0, ".<held>");
}

int
ia_name_in_framework(PyObject *op, int kind, uintptr_t child,
                     ia_edge_text *out)
{
    graph_search s = start_search(child);
    ia_the_framework->expand_object(op, (ia_kind)kind, &s.sink);
    if (s.found)
        set_graph_edge(&s, out);
    return s.found;
}
