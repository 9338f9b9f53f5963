/* From the PostgreSQL headers in pg_raw_parse 0.1.0, by `cargo xtask bindings`. */
#include "wrapper.h"

// Static wrappers

MemoryContext MemoryContextSwitchTo__extern(MemoryContext context) { return MemoryContextSwitchTo(context); }
Node * newNode__extern(size_t size, NodeTag tag) { return newNode(size, tag); }
MemoryContext get_top_memory_context__extern(void) { return get_top_memory_context(); }
bool wrapped_raw_expression_tree_walker_impl__extern(Node *n, tree_walker_callback w, void *c, Error *error) { return wrapped_raw_expression_tree_walker_impl(n, w, c, error); }
StringInfo wrapped_raw_deparse__extern(RawStmt *stmt, ErrorData **error) { return wrapped_raw_deparse(stmt, error); }
char * wrapped_pnstrdup__extern(const char *in, Size len) { return wrapped_pnstrdup(in, len); }
Node * wrapped_copy_object__extern(Node *node, ErrorData **error) { return wrapped_copy_object(node, error); }
