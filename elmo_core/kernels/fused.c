/* The hot loops for CPUs: one pass over the data, where the Paddle operators of lstmp.py, char_cnn.py and softmax.py take a
   dozen. Compiled by fused.py if there is a compiler; optional. Functions that are not static take int64_t,
   float and pointers only; fused.py lists their parameters.

   All matrices are row-major float32, except the operands of products in bfloat16. The matrix products are those of Paddle's
   MKL, and in bfloat16 of its oneDNN, passed in as pointers.

   Nothing is checked here: a function that takes indices or numbers of rows says who has. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Matrix products */

enum { ROW_MAJOR = 101, AS_IS = 111, TRANSPOSED = 112, PACKED = 151, RIGHT_SIDE = 162 };              /* MKL's names */
enum { BFLOAT16 = 2, FLOAT32 = 3, ANY_ORDER = 1, LEFT = 1, RESULT = 17, RIGHT = 33, RIGHT_DESC = 131 }; /* oneDNN's */

typedef struct { /* a matrix of a oneDNN computation, in the role LEFT, RIGHT or RESULT */
    int role;
    void *memory;
} argument_t;

typedef struct {
    /* MKL's functions: one product, and a right-hand side that is prepared once for many products: MKL packs it */
    void (*product)(int layout, int trans_a, int trans_b, int m, int n, int k, float alpha, const float *a, int lda,
                    const float *b, int ldb, float beta, float *c, int ldc);
    float *(*allocate)(int side, int m, int n, int k);
    void (*pack)(int layout, int side, int trans, int m, int n, int k, float alpha, const float *matrix, int ld, float *packed);
    void (*compute)(int layout, int trans_a, int trans_b, int m, int n, int k, const float *a, int lda, const float *b,
                    int ldb, float beta, float *c, int ldc);
    void (*release)(float *packed);
    /* oneDNN's engine, NULL for products in float32; what makes a product add to its result; and its functions */
    void *engine, *adding;
    int (*strided_desc)(void **desc, int ndims, const int64_t *dims, int type, const int64_t *strides);
    int (*tagged_desc)(void **desc, int ndims, const int64_t *dims, int type, int tag);
    int (*clone_desc)(void **desc, const void *of);
    size_t (*desc_size)(const void *desc);
    const void *(*query_desc)(const void *plan, int what, int index);
    int (*plan_product)(void **plan, void *engine, const void *a, const void *b, const void *bias, const void *c, const void *options);
    int (*plan_reorder)(void **plan, const void *from, void *engine, const void *to, void *to_engine, const void *options);
    int (*create_primitive)(void **primitive, const void *plan);
    int (*create_memory)(void **memory, const void *desc, void *engine, void *data);
    int (*create_stream)(void **stream, void *engine, unsigned flags);
    int (*execute)(const void *primitive, void *stream, int n, const argument_t *arguments);
    int (*destroy_desc)(void *), (*destroy_plan)(void *), (*destroy_primitive)(void *), (*destroy_memory)(void *);
    int (*destroy_stream)(void *);
    int *failed; /* set to oneDNN's error */
} blas_t;

typedef struct { /* the right-hand side (k, n) of later products */
    const blas_t *blas;
    const float *matrix; /* NULL in bfloat16 */
    void *packed, *desc; /* packed: NULL if it does not pay; desc: of oneDNN */
    int trans, k, n, ld;
} rhs_t;

static int64_t at_most(int64_t a, int64_t b) { return a < b ? a : b; }

/* Memory aligned to a cache line: vectors across two lines cost twice. NULL if there is not enough. */
static void *alloc_bytes(size_t n) { return aligned_alloc(64, (n + 63) / 64 * 64); }

static float *alloc_aligned(int64_t n) { return alloc_bytes(n * sizeof(float)); }

/* Round n numbers to bfloat16, to the nearest, halfway cases to even. */
void round_to_bfloat16(int64_t n, const float *restrict x, uint16_t *restrict rounded) {
    for (int64_t k = 0; k < n; k++) {
        uint32_t bits;
        memcpy(&bits, x + k, sizeof bits);
        rounded[k] = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    }
}

/* An operand's rows are float32, or bfloat16 in products of that precision. */
static void *row_of(const blas_t *blas, const void *operand, int64_t at) {
    return (char *)operand + at * (blas->engine ? sizeof(uint16_t) : sizeof(float));
}

static void write_operand(const blas_t *blas, int64_t n, const float *x, void *operand) {
    if (blas->engine)
        round_to_bfloat16(n, x, operand);
    else
        memcpy(operand, x, n * sizeof(float));
}

/* A description of the matrix (m, n), or of one whose transpose is stored. */
static void *describe(const blas_t *blas, int type, int trans, int64_t m, int64_t n) {
    void *desc = NULL;
    int64_t dims[12] = {m, n}, strides[12] = {trans == AS_IS ? n : 1, trans == AS_IS ? 1 : m};
    *blas->failed |= blas->strided_desc(&desc, 2, dims, type, strides);
    return desc;
}

/* Execute the plan with n matrices in these roles, then destroy it. oneDNN keeps what it compiled: a plan like an earlier one
   takes microseconds. */
static void execute(const blas_t *blas, void *plan, int n, const int *roles, const void *const *descs, const void *const *data) {
    void *primitive = NULL, *stream = NULL;
    argument_t arguments[3] = {{0}};
    int failed = blas->create_primitive(&primitive, plan) | blas->create_stream(&stream, blas->engine, 1);
    for (int k = 0; k < n; k++) {
        arguments[k].role = roles[k];
        failed |= blas->create_memory(&arguments[k].memory, descs[k], blas->engine, (void *)data[k]);
    }
    *blas->failed |= failed ? failed : blas->execute(primitive, stream, n, arguments);
    for (int k = 0; k < n; k++) blas->destroy_memory(arguments[k].memory);
    blas->destroy_stream(stream);
    blas->destroy_primitive(primitive);
    blas->destroy_plan(plan);
}

static void product_bfloat16(const blas_t *blas, int64_t m, int64_t n, const void *a, void *a_desc, const void *b,
                             const void *b_desc, int add, float *c) {
    void *plan = NULL, *c_desc = describe(blas, FLOAT32, AS_IS, m, n);
    *blas->failed |= blas->plan_product(&plan, blas->engine, a_desc, b_desc, NULL, c_desc, add ? blas->adding : NULL);
    if (plan) execute(blas, plan, 3, (int[]){LEFT, RIGHT, RESULT}, (const void *[]){a_desc, b_desc, c_desc}, (const void *[]){a, b, c});
    blas->destroy_desc(c_desc);
    blas->destroy_desc(a_desc);
}

/* Pack `matrix`, or its transpose, in bfloat16 in the order that oneDNN prefers for products of m rows. */
static void pack_bfloat16(rhs_t *rhs, int64_t m) {
    const blas_t *blas = rhs->blas;
    uint16_t *rounded = alloc_bytes((size_t)rhs->k * rhs->n * sizeof *rounded);
    void *a = describe(blas, BFLOAT16, AS_IS, m, rhs->k), *c = describe(blas, FLOAT32, AS_IS, m, rhs->n), *any = NULL;
    void *from = describe(blas, BFLOAT16, rhs->trans, rhs->k, rhs->n), *plan = NULL, *reorder = NULL;
    int64_t dims[12] = {rhs->k, rhs->n};
    *blas->failed |= !rounded | blas->tagged_desc(&any, 2, dims, BFLOAT16, ANY_ORDER);
    *blas->failed |= blas->plan_product(&plan, blas->engine, a, any, NULL, c, NULL);
    if (!*blas->failed && !(*blas->failed |= blas->clone_desc(&rhs->desc, blas->query_desc(plan, RIGHT_DESC, 0)))) {
        rhs->packed = alloc_bytes(blas->desc_size(rhs->desc));
        *blas->failed |= !rhs->packed | blas->plan_reorder(&reorder, from, blas->engine, rhs->desc, blas->engine, NULL);
    }
    if (!*blas->failed) {
        round_to_bfloat16((int64_t)rhs->k * rhs->n, rhs->matrix, rounded);
        execute(blas, reorder, 2, (int[]){LEFT, RESULT}, (const void *[]){from, rhs->desc}, (const void *[]){rounded, rhs->packed});
    }
    if (plan) blas->destroy_plan(plan);
    blas->destroy_desc(a);
    blas->destroy_desc(c);
    blas->destroy_desc(any);
    blas->destroy_desc(from);
    free(rounded);
}

/* Prepare `matrix` or its transpose as the right-hand side of `products` products with `rows` rows in total, packed if that
   pays. The products have other numbers of rows than it is packed for, which MKL's manual leaves open: fused.py tests it, and
   passes no `allocate` if it fails. */
static rhs_t prepare_rhs(const blas_t *blas, int trans, int64_t k, int64_t n, const float *matrix, int64_t products, int64_t rows) {
    rhs_t rhs = {blas, matrix, NULL, NULL, trans, k, n, trans == AS_IS ? n : k};
    if (blas->engine)
        pack_bfloat16(&rhs, products ? rows / products : 1);
    else if (blas->allocate && products > 2 && rows >= 4 * products)
        rhs.packed = blas->allocate(RIGHT_SIDE, rows / products, n, k);
    if (rhs.packed && !blas->engine)
        blas->pack(ROW_MAJOR, RIGHT_SIDE, trans, rows / products, n, k, 1.0f, matrix, rhs.ld, rhs.packed);
    return rhs;
}

static void release(rhs_t *rhs) {
    if (rhs->desc) {
        rhs->blas->destroy_desc(rhs->desc);
        free(rhs->packed);
    } else if (rhs->packed)
        rhs->blas->release(rhs->packed);
}

rhs_t *create_rhs(const blas_t *blas, int64_t trans, int64_t k, int64_t n, const float *matrix, int64_t products, int64_t rows) {
    rhs_t *rhs = malloc(sizeof *rhs);
    if (rhs) *rhs = prepare_rhs(blas, trans, k, n, matrix, products, rows);
    return rhs;
}

void destroy_rhs(rhs_t *rhs) {
    release(rhs);
    free(rhs);
}

/* c (m, n) = a (m, k) times the right-hand side */
void multiply(int64_t m, const void *a, const rhs_t *b, float *c) {
    const blas_t *blas = b->blas;
    if (blas->engine)
        product_bfloat16(blas, m, b->n, a, describe(blas, BFLOAT16, AS_IS, m, b->k), b->packed, b->desc, 0, c);
    else if (b->packed)
        blas->compute(ROW_MAJOR, AS_IS, PACKED, m, b->n, b->k, a, b->k, b->packed, b->ld, 0.0f, c, b->n);
    else
        blas->product(ROW_MAJOR, AS_IS, b->trans, m, b->n, b->k, 1.0f, a, b->k, b->matrix, b->ld, 0.0f, c, b->n);
}

/* c (m, n) = a (m, k) times b (k, n), or added to c; either may be stored transposed */
void product(const blas_t *blas, int64_t trans_a, int64_t trans_b, int64_t m, int64_t n, int64_t k, const void *a, const void *b,
             int64_t add, float *c) {
    if (blas->engine) {
        void *b_desc = describe(blas, BFLOAT16, trans_b, k, n);
        product_bfloat16(blas, m, n, a, describe(blas, BFLOAT16, trans_a, m, k), b, b_desc, add, c);
        blas->destroy_desc(b_desc);
    } else
        blas->product(ROW_MAJOR, trans_a, trans_b, m, n, k, 1.0f, a, trans_a == AS_IS ? k : m, b, trans_b == AS_IS ? n : k, add,
                      c, n);
}

/* Elementary functions, written so that the compiler vectorises them */

/* exp(x) to about 1e-7 relative: 2^n * polynomial on [-ln2/2, ln2/2]. */
static inline float exp_approx(float x) {
    x = x > 88.0f ? 88.0f : x < -87.0f ? -87.0f : x;
    float n = rintf(x * 1.44269504f);
    float r = x - n * 0.693145752f - n * 1.42860677e-6f;
    float p = 1.98412698e-4f;
    p = p * r + 1.38888889e-3f;
    p = p * r + 8.33333333e-3f;
    p = p * r + 4.16666667e-2f;
    p = p * r + 1.66666667e-1f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    int32_t bits = ((int32_t)n + 127) << 23;
    float scale;
    memcpy(&scale, &bits, sizeof scale);
    return p * scale;
}

static inline float sigmoid(float x) { return 1.0f / (1.0f + exp_approx(-x)); }

static inline float tanh_approx(float x) { return 1.0f - 2.0f / (1.0f + exp_approx(2.0f * x)); }

static inline float clipped(float x, float bound) { return x > bound ? bound : x < -bound ? -bound : x; }

static inline void add_to(float *restrict sum, const float *restrict x, int64_t n) {
    for (int64_t k = 0; k < n; k++) sum[k] += x[k];
}

/* The projected LSTM's loop over the steps of one direction. Rows are packed as in lstmp.py: step t has batch_sizes[t] rows,
   the longest first. Shapes: P projection size, H cell size, B rows, M = sum of all row lengths. */

/* One row of one step. The gates' preactivations are sums (4H) + input (4H). Updates c (H), sets m (H) to the cell's output
   before the projection and, if `keep` is set, gates (4H) to the activations. Inlined with a constant `keep`: compilers do not
   vectorise a loop with a branch inside. */
static inline __attribute__((always_inline)) void cell_forward(int64_t H, const float *restrict sums, const float *restrict input,
                                                               float *restrict c, float *restrict m, float *restrict gates,
                                                               float cell_clip, int keep) {
    for (int64_t k = 0; k < H; k++) {
        float i = sigmoid(sums[k] + input[k]);
        float j = tanh_approx(sums[H + k] + input[H + k]);
        float f = sigmoid(sums[2 * H + k] + input[2 * H + k]);
        float o = sigmoid(sums[3 * H + k] + input[3 * H + k]);
        float cell = clipped(f * c[k] + i * j, cell_clip);
        c[k] = cell;
        m[k] = o * tanh_approx(cell);
        if (keep) {
            gates[k] = i;
            gates[H + k] = j;
            gates[2 * H + k] = f;
            gates[3 * H + k] = o;
        }
    }
}

/* One row of one step backward. gates (4H): the activations; d_gates, perhaps the same memory: set to the preactivations'
   gradients; d_c (H): the gradient of this step's c, replaced by that of the previous step's. */
static void cell_backward(int64_t H, const float *gates, const float *restrict c, const float *restrict previous_c,
                          const float *restrict d_m, float *restrict d_c, float cell_clip, float *d_gates) {
#pragma GCC ivdep
    for (int64_t k = 0; k < H; k++) {
        float i = gates[k], j = gates[H + k], f = gates[2 * H + k], o = gates[3 * H + k];
        float t = tanh_approx(c[k]);
        float d = d_c[k] + d_m[k] * o * (1.0f - t * t);
        d = fabsf(c[k]) < cell_clip ? d : 0.0f;
        d_gates[k] = d * j * i * (1.0f - i);
        d_gates[H + k] = d * i * (1.0f - j * j);
        d_gates[2 * H + k] = d * previous_c[k] * f * (1.0f - f);
        d_gates[3 * H + k] = d_m[k] * t * o * (1.0f - o);
        d_c[k] = d * f;
    }
}

/* With x (M, P), the kernel multiplies x together with h: the right-hand side `recurrent` (2P, 4H) is the input weight above
   the recurrent one, and gate_inputs (4H) the bias. Without x, it (P, 4H) is the recurrent weight, and entry a reads row
   indices[a] of gate_inputs (N, 4H), the input products with the bias. `down` (H, P): the projection.
   h (B, P), c (B, H): the initial state, replaced by the final one. outputs: (M, P). preactivations (B + 1, 4H): scratch.
   cells (M, H) and gates (M, 4H) are filled for the backward pass, or NULL. The operands gemm_input (n, P or 2P), multiplied
   with `recurrent`, and cell_output (n, H), multiplied with `down`, have n = M rows with cells, else B.
   Checked: batch_sizes are made by `Packing.from_lengths`, B first, never rising. Paddle's
   `gather` in `BiLM.lstm_layers` has read the vectors of the same indices, or cpu_lstm.py has counted
   them from 0 to M - 1. */
void lstmp_forward(int64_t steps, const int64_t *batch_sizes, int64_t P, int64_t H, const float *gate_inputs,
                   const int64_t *indices, const float *x, const rhs_t *recurrent, const rhs_t *down, float cell_clip,
                   float proj_clip, float *h, float *c, float *outputs, float *preactivations, void *gemm_input,
                   void *cell_output, float *gates, float *cells) {
    const blas_t *blas = down->blas;
    const float *previous = h;
    float *scratch = preactivations + batch_sizes[0] * 4 * H;
    for (int64_t t = 0, a = 0, K = recurrent->k; t < steps; a += batch_sizes[t++]) {
        int64_t n = batch_sizes[t], kept = cells ? a : 0;
        void *step_input = row_of(blas, gemm_input, kept * K);
        float *output = outputs + a * P;
        for (int64_t r = 0; r < n; r++) {
            if (x) write_operand(blas, P, x + (a + r) * P, row_of(blas, step_input, r * K));
            write_operand(blas, P, previous + r * P, row_of(blas, step_input, (r + 1) * K - P));
        }
        multiply(n, step_input, recurrent, preactivations);
        for (int64_t r = 0; r < n; r++) {
            const float *input = x ? gate_inputs : gate_inputs + indices[a + r] * 4 * H;
            const float *row = preactivations + r * 4 * H;
            void *operand = row_of(blas, cell_output, (kept + r) * H);
            float *m = blas->engine ? scratch : operand;
            if (cells)
                cell_forward(H, row, input, c + r * H, m, gates + (a + r) * 4 * H, cell_clip, 1);
            else
                cell_forward(H, row, input, c + r * H, m, NULL, cell_clip, 0);
            if (blas->engine) round_to_bfloat16(H, m, operand);
        }
        if (cells) memcpy(cells + a * H, c, n * H * sizeof(float));
        multiply(n, row_of(blas, cell_output, kept * H), down, output);
        for (int64_t k = 0; k < n * P; k++) output[k] = clipped(output[k], proj_clip);
        memcpy(h, output, n * P * sizeof(float));
        previous = output;
    }
}

/* The right-hand sides are the transposed projection `up` (P, H) and `recurrent` (4H, P or 2P). gates: the activations,
   replaced by the preactivations' gradients (in bfloat16 with x only d_gates has them), whose sum is d_bias (4H). d_h, d_c: the
   gradients of the final state, replaced by those of the initial one. d_projected (M, P): set to the gradient before the
   projection's clip. d_x (M, P): set to the gradient of x, NULL without x. d_cell_output (B + 4, H), d_gemm_input (B, 2P):
   scratch memory. The operands d_gates (M, 4H) and d_outgoing (M, P) are set to gates and d_projected in bfloat16; in float32
   they are the same memory. Checked: batch_sizes are those of the forward pass. */
void lstmp_backward(int64_t steps, const int64_t *batch_sizes, int64_t P, int64_t H, const rhs_t *recurrent, const rhs_t *up,
                    float cell_clip, float proj_clip, const float *initial_c, const float *outputs, const float *d_outputs,
                    const float *cells, float *gates, float *d_h, float *d_c, float *d_projected, void *d_gates,
                    void *d_outgoing, float *d_x, float *d_bias, float *d_cell_output, float *d_gemm_input) {
    const blas_t *blas = up->blas;
    int64_t a = 0, K = recurrent->n;
    float *scratch = d_cell_output + batch_sizes[0] * H;
    for (int64_t t = 0; t < steps; t++) a += batch_sizes[t];
    memset(d_bias, 0, 4 * H * sizeof(float));
    for (int64_t t = steps - 1; t >= 0; t--) {
        int64_t n = batch_sizes[t];
        a -= n;
        float *step_gates = gates + a * 4 * H, *d_output = d_projected + a * P;
        void *gates_operand = row_of(blas, d_gates, a * 4 * H), *output_operand = row_of(blas, d_outgoing, a * P);
        const float *c = cells + a * H, *previous_c = t ? cells + (a - batch_sizes[t - 1]) * H : initial_c;
        for (int64_t k = 0; k < n * P; k++) {
            float d = d_h[k] + d_outputs[a * P + k];
            d_output[k] = fabsf(outputs[a * P + k]) < proj_clip ? d : 0.0f;
        }
        if (blas->engine) round_to_bfloat16(n * P, d_output, output_operand);
        multiply(n, output_operand, up, d_cell_output);
        for (int64_t r = 0; r < n; r++) {
            float *gates_row = step_gates + r * 4 * H, *row = blas->engine && d_x ? scratch : gates_row;
            cell_backward(H, gates_row, c + r * H, previous_c + r * H, d_cell_output + r * H, d_c + r * H, cell_clip, row);
            add_to(d_bias, row, 4 * H);
            if (blas->engine) round_to_bfloat16(4 * H, row, row_of(blas, gates_operand, r * 4 * H));
        }
        multiply(n, gates_operand, recurrent, d_x ? d_gemm_input : d_h);
        for (int64_t r = 0; d_x && r < n; r++) {
            memcpy(d_x + (a + r) * P, d_gemm_input + r * K, P * sizeof(float));
            memcpy(d_h + r * P, d_gemm_input + r * K + P, P * sizeof(float));
        }
    }
}

/* The character CNN: convolutions, max pooling over positions, activation. A token needs the windows that start at its
   characters, and one of padding only. Tokens are processed in blocks of about ROWS windows, which stay in the cache.
   ids (N, C), lengths (N), table (characters, D), an operand. Filters of widths[k] have a weight (widths[k] * D,
   filter_counts[k]) and a bias.
   Checked: the alphabet's ids are rows of the table, and its columns those of the configuration,
   by `fits_alphabet` of model_files.py if it comes with a vocabulary, by config.py (n_characters)
   for bytes. characters.py makes the ids, and lengths of at most C. config.py limits widths to C,
   and C to 127. */

enum { ROWS = 128 }; /* at least a token's windows, which are at most C + 1 */

typedef struct {
    int64_t columns, dim;
    const int32_t *ids, *lengths;
    const void *table;
    int64_t n_widths;
    const int64_t *widths, *filter_counts;
} cnn_t;

static int64_t n_windows(const cnn_t *cnn, int64_t token, int64_t width) {
    int64_t last = cnn->columns - width, length = cnn->lengths[token];
    return (length < last ? length : last) + 1;
}

/* Write the windows (rows, width * D) of tokens a .. b, one token after another. Returns their number. bytes: of a vector. */
static int64_t fill_windows(const cnn_t *cnn, int64_t a, int64_t b, int64_t width, int64_t bytes, void *windows) {
    int64_t rows = 0;
    for (int64_t token = a; token < b; token++) {
        const int32_t *ids = cnn->ids + token * cnn->columns;
        for (int64_t s = 0, n = n_windows(cnn, token, width); s < n; s++, rows++)
            for (int64_t w = 0; w < width; w++)
                memcpy((char *)windows + (rows * width + w) * bytes, (const char *)cnn->table + ids[s + w] * bytes, bytes);
    }
    return rows;
}

/* The end of the block of tokens that starts at a. */
static int64_t block_end(const cnn_t *cnn, int64_t a, int64_t end) {
    int64_t b = a;
    for (int64_t rows = 0; b < end && (b == a || rows + cnn->lengths[b] + 1 <= ROWS); b++) rows += cnn->lengths[b] + 1;
    return b;
}

static int64_t largest(const int64_t *values, int64_t n) {
    int64_t most = 0;
    for (int64_t k = 0; k < n; k++) most = values[k] > most ? values[k] : most;
    return most;
}

/* Compute features (N, F) of tokens begin .. end, and in argmax (N, F), unless NULL, the window each comes from. filters: the
   weights. Returns 0 if out of memory. */
int64_t cnn_forward(int64_t columns, int64_t dim, const int32_t *ids, const int32_t *lengths, const void *table,
                int64_t n_widths, const int64_t *widths, const int64_t *filter_counts, int64_t begin, int64_t end,
                const rhs_t *const *filters, const float *const *biases, int64_t is_tanh, float *features, uint8_t *argmax) {
    const cnn_t cnn = {columns, dim, ids, lengths, table, n_widths, widths, filter_counts};
    int is_half = filters[0]->blas->engine != NULL;
    int64_t width = largest(cnn.widths, cnn.n_widths), number = largest(cnn.filter_counts, cnn.n_widths), F = 0, F0 = 0;
    for (int64_t k = 0; k < cnn.n_widths; k++) F += cnn.filter_counts[k];
    float *windows = alloc_aligned(ROWS * width * cnn.dim), *sums = alloc_aligned(ROWS * number);
    int32_t *best_window = malloc(number * sizeof(int32_t));
    int ok = windows && sums && best_window;
    for (int64_t a = begin, b; ok && a < end; a = b) {
        b = block_end(&cnn, a, end);
        F0 = 0;
        for (int64_t k = 0; k < cnn.n_widths; F0 += cnn.filter_counts[k++]) {
            int64_t n = cnn.filter_counts[k], bytes = cnn.dim * (is_half ? sizeof(uint16_t) : sizeof(float));
            int64_t rows = fill_windows(&cnn, a, b, cnn.widths[k], bytes, windows);
            multiply(is_half ? (rows + 31) / 32 * 32 : rows, windows, filters[k], sums); /* oneDNN compiles for each number */
            const float *row = sums, *bias = biases[k];
            for (int64_t token = a; token < b; token++) {
                float *restrict best = features + token * F + F0;
                memcpy(best, row, n * sizeof(float));
                memset(best_window, 0, n * sizeof(int32_t));
                row += n;
                for (int32_t s = 1, last = n_windows(&cnn, token, cnn.widths[k]); s < last; s++, row += n)
                    for (int64_t f = 0; f < n; f++) {
                        best_window[f] = row[f] > best[f] ? s : best_window[f];
                        best[f] = row[f] > best[f] ? row[f] : best[f];
                    }
                if (is_tanh)
                    for (int64_t f = 0; f < n; f++) best[f] = tanh_approx(best[f] + bias[f]);
                else
                    for (int64_t f = 0; f < n; f++) best[f] = best[f] + bias[f] < 0.0f ? 0.0f : best[f] + bias[f];
                for (int64_t f = 0; argmax && f < n; f++) argmax[token * F + F0 + f] = best_window[f];
            }
        }
    }
    free(windows);
    free(sums);
    free(best_window);
    return ok;
}

/* A feature is window . filter, so d times each is added to the other's gradient, over K elements. */
static void add_pair_gradients(int64_t K, float d, const float *restrict window, const float *restrict filter,
                               float *restrict d_window, float *restrict d_filter) {
    enum { LANES = 16 };
    int64_t whole = K - K % LANES;
    for (int64_t k = 0; k < whole; k += LANES)
        for (int64_t lane = k; lane < k + LANES; lane++) {
            d_filter[lane] += d * window[lane];
            d_window[lane] += d * filter[lane];
        }
    for (int64_t k = whole; k < K; k++) {
        d_filter[k] += d * window[k];
        d_window[k] += d * filter[k];
    }
}

/* Add the gradients of tokens begin .. end to d_table (characters, D), d_weights and d_biases, from d_features (N, F). Each
   feature comes from one window: a matrix product over all windows would mostly multiply zeros. Returns 0 if out of memory.
   Checked: argmax is that of cnn_forward for the same tokens, whose ids it has read. */
int64_t cnn_backward(int64_t columns, int64_t dim, const int32_t *ids, const int32_t *lengths,
                 const float *table, int64_t n_widths, const int64_t *widths, const int64_t *filter_counts, int64_t begin, int64_t end,
                 const float *const *weights, int64_t is_tanh, const float *features, const uint8_t *argmax,
                 const float *d_features, float *d_table, float *const *d_weights, float *const *d_biases) {
    const cnn_t cnn = {columns, dim, ids, lengths, table, n_widths, widths, filter_counts};
    int64_t width = largest(cnn.widths, cnn.n_widths), number = largest(cnn.filter_counts, cnn.n_widths), D = cnn.dim, F = 0;
    for (int64_t k = 0; k < cnn.n_widths; k++) F += cnn.filter_counts[k];
    enum { FILTERS_PER_BLOCK = 16 };
    float *windows = alloc_aligned(ROWS * width * D), *d_windows = alloc_aligned(ROWS * width * D);
    float *filters = alloc_aligned(number * width * D), *d_filters = alloc_aligned(number * width * D);
    int ok = windows && d_windows && filters && d_filters;
    for (int64_t k = 0, F0 = 0; ok && k < cnn.n_widths; F0 += cnn.filter_counts[k++]) {
        int64_t K = cnn.widths[k] * D, n = cnn.filter_counts[k], first[ROWS];
        for (int64_t f = 0; f < n; f++) /* transposed: each filter contiguous, like the windows */
            for (int64_t j = 0; j < K; j++) filters[f * K + j] = weights[k][j * n + f];
        memset(d_filters, 0, n * K * sizeof(float));
        for (int64_t a = begin, b; a < end; a = b) {
            b = block_end(&cnn, a, end);
            int64_t rows = fill_windows(&cnn, a, b, cnn.widths[k], D * sizeof(float), windows);
            for (int64_t token = a, row = 0; token < b; row += n_windows(&cnn, token++, cnn.widths[k])) first[token - a] = row;
            memset(d_windows, 0, rows * K * sizeof(float));
            for (int64_t f0 = 0; f0 < n; f0 += FILTERS_PER_BLOCK)
                for (int64_t token = a; token < b; token++)
                    for (int64_t f = f0, at = token * F + F0 + f0; f < at_most(f0 + FILTERS_PER_BLOCK, n); f++, at++) {
                        float slope = is_tanh ? 1.0f - features[at] * features[at] : features[at] > 0.0f;
                        float d = d_features[at] * slope;
                        int64_t window = (first[token - a] + argmax[at]) * K;
                        if (d == 0.0f) continue;
                        d_biases[k][f] += d;
                        add_pair_gradients(K, d, windows + window, filters + f * K, d_windows + window, d_filters + f * K);
                    }
            const float *d_window = d_windows;
            for (int64_t token = a; token < b; token++) {
                const int32_t *ids = cnn.ids + token * cnn.columns;
                for (int64_t s = 0, last = n_windows(&cnn, token, cnn.widths[k]); s < last; s++)
                    for (int64_t w = 0; w < cnn.widths[k]; w++, d_window += D) add_to(d_table + ids[s + w] * D, d_window, D);
            }
        }
        for (int64_t f = 0; f < n; f++)
            for (int64_t j = 0; j < K; j++) d_weights[k][j * n + f] += d_filters[f * K + j];
    }
    free(windows);
    free(d_windows);
    free(filters);
    free(d_filters);
    return ok;
}

/* A highway layer's gate: y = x + g * (r - x), r = relu(t + t_bias), g = sigmoid(c + c_bias). t and c (N, F) are replaced by r
   and g. */
static void gate_row(int64_t F, const float *restrict x, const float *restrict t_bias, const float *restrict c_bias,
                     float *restrict t, float *restrict c, float *restrict y) {
    for (int64_t k = 0; k < F; k++) {
        float r = t[k] + t_bias[k], g = sigmoid(c[k] + c_bias[k]);
        r = r < 0.0f ? 0.0f : r;
        y[k] = x[k] + g * (r - x[k]);
        t[k] = r;
        c[k] = g;
    }
}

void gate_forward(int64_t begin, int64_t end, int64_t F, const float *x, const float *t_bias, const float *c_bias, float *t,
                  float *c, float *y) {
    for (int64_t at = begin * F; at < end * F; at += F) gate_row(F, x + at, t_bias, c_bias, t + at, c + at, y + at);
}

/* Sets d_x (N, F) to the gradient of x through the gate alone. r and g are replaced by the gradients of t and c, whose sums over
   the rows are added to d_t_bias and d_c_bias (F). opened (F): set to the largest r of each unit, if that is larger. */
static void gate_row_backward(int64_t F, const float *restrict x, const float *restrict d_y, float *restrict r,
                              float *restrict g, float *restrict d_x, float *restrict d_t_bias, float *restrict d_c_bias,
                              float *restrict opened) {
    for (int64_t k = 0; k < F; k++) {
        float above = r[k], open = g[k];
        opened[k] = above > opened[k] ? above : opened[k];
        d_x[k] = d_y[k] * (1.0f - open);
        r[k] = above > 0.0f ? d_y[k] * open : 0.0f;
        g[k] = d_y[k] * (above - x[k]) * open * (1.0f - open);
        d_t_bias[k] += r[k];
        d_c_bias[k] += g[k];
    }
}

void gate_backward(int64_t begin, int64_t end, int64_t F, const float *x, const float *d_y, float *r, float *g, float *d_x,
                   float *d_t_bias, float *d_c_bias, float *opened) {
    for (int64_t at = begin * F; at < end * F; at += F)
        gate_row_backward(F, x + at, d_y + at, r + at, g + at, d_x + at, d_t_bias, d_c_bias, opened);
}

/* Set chosen (rows, n) to these n columns of a matrix (rows, width).
   Checked, as for scatter_columns: cpu_char_cnn.py counts the columns of the same matrix. */
void gather_columns(int64_t rows, int64_t width, int64_t n, const int64_t *columns, const float *matrix, float *chosen) {
    for (int64_t row = 0; row < rows; row++)
        for (int64_t k = 0; k < n; k++) chosen[row * n + k] = matrix[row * width + columns[k]];
}

/* Set these n columns of a matrix (rows, width) to chosen (rows, n), the others to zero. */
void scatter_columns(int64_t rows, int64_t width, int64_t n, const int64_t *columns, const float *chosen, float *matrix) {
    memset(matrix, 0, rows * width * sizeof(float));
    for (int64_t row = 0; row < rows; row++)
        for (int64_t k = 0; k < n; k++) matrix[row * width + columns[k]] = chosen[row * n + k];
}

enum { LANES = 16, PIECE = 64 * LANES }; /* a maximum and a sum per lane, to vectorise; sums are added in double by pieces */

static float largest_logit(int64_t n, const float *x, float most) {
    float tops[LANES];
    int64_t whole = n - n % LANES;
    for (int64_t lane = 0; lane < LANES; lane++) tops[lane] = most;
    for (int64_t k = 0; k < whole; k += LANES)
        for (int64_t lane = 0; lane < LANES; lane++) tops[lane] = x[k + lane] > tops[lane] ? x[k + lane] : tops[lane];
    for (int64_t k = whole; k < n; k++) tops[0] = x[k] > tops[0] ? x[k] : tops[0];
    for (int64_t lane = 0; lane < LANES; lane++) most = tops[lane] > most ? tops[lane] : most;
    return most;
}

/* Replace logits x (S) by exp(x - their maximum, or row_max if that is larger), which row_max becomes. Returns their sum: in
   double, because many small terms can make it up. */
static double exp_minus_max(int64_t S, float *restrict x, float *row_max) {
    float most = *row_max = largest_logit(S, x, *row_max);
    int64_t whole = S - S % LANES;
    double sum = 0;
    for (int64_t a = 0; a < whole; a += PIECE) {
        float sums[LANES] = {0};
        for (int64_t k = a; k < at_most(a + PIECE, whole); k += LANES)
            for (int64_t lane = 0; lane < LANES; lane++) sums[lane] += x[k + lane] = exp_approx(x[k + lane] - most);
        for (int64_t lane = 0; lane < LANES; lane++) sum += sums[lane];
    }
    for (int64_t k = whole; k < S; k++) sum += x[k] = exp_approx(x[k] - most);
    return sum;
}

static void scale_and_add(int64_t n, float *restrict x, float factor, float *restrict sum) {
    for (int64_t k = 0; k < n; k++) sum[k] += x[k] *= factor;
}

/* The sampled softmax of M predictions: hidden states h (M, P), table (S, P) and bias (S) of the candidates, and the targets'
   logits target_logits (M). The n_hits accidental hits (row, candidate), with rows rising, are masked. Sets loss to the mean
   over the predictions, d_h (M, P), d_table (S, P), d_bias (S), and d_target (M) to the gradient of the targets' logits. The
   logits of SLICE predictions at a time stay in the cache. Returns 0 if out of memory.
   Checked: `Candidates.accidental_hits` itself counts rows among M and candidates among S. */
int64_t softmax_loss(const blas_t *blas, int64_t M, int64_t S, int64_t P, const float *h, const float *table, const float *bias,
                 const float *target_logits, int64_t n_hits, const int64_t *hit_rows, const int64_t *hit_candidates, float *loss,
                 float *d_h, float *d_table, float *d_bias, float *d_target) {
    enum { SLICE = 128 };
    float *logits = alloc_aligned(at_most(SLICE, M) * S);
    void *operand = blas->engine ? alloc_bytes(at_most(SLICE, M) * (S + P) * sizeof(uint16_t)) : logits;
    if (!logits || !operand) {
        if (blas->engine) free(operand);
        free(logits);
        return 0;
    }
    int64_t slices = (M + SLICE - 1) / SLICE, hit = 0;
    rhs_t across = prepare_rhs(blas, TRANSPOSED, P, S, table, slices, M), back = prepare_rhs(blas, AS_IS, S, P, table, slices, M);
    double sum = 0;
    memset(d_table, 0, S * P * sizeof(float));
    memset(d_bias, 0, S * sizeof(float));
    for (int64_t a = 0; a < M; a += SLICE) {
        int64_t n = at_most(SLICE, M - a);
        const void *h_operand = blas->engine ? row_of(blas, operand, n * S) : h + a * P;
        if (blas->engine) round_to_bfloat16(n * P, h + a * P, (void *)h_operand);
        multiply(n, h_operand, &across, logits);
        for (int64_t row = 0; row < n; row++) {
            float *x = logits + row * S, target_logit = target_logits[a + row], row_max = target_logit;
            add_to(x, bias, S);
            for (; hit < n_hits && hit_rows[hit] == a + row; hit++) x[hit_candidates[hit]] = -1e30f;
            float total = exp_minus_max(S, x, &row_max), target_exp = exp_approx(target_logit - row_max);
            total += target_exp;
            sum += logf(total) + row_max - target_logit;
            d_target[a + row] = target_exp / (total * M) - 1.0f / M;
            scale_and_add(S, x, 1.0f / (total * M), d_bias);
            if (blas->engine) round_to_bfloat16(S, x, row_of(blas, operand, row * S));
        }
        multiply(n, operand, &back, d_h + a * P);
        product(blas, TRANSPOSED, AS_IS, S, P, n, operand, h_operand, 1, d_table);
    }
    *loss = sum / M;
    release(&across);
    release(&back);
    if (blas->engine) free(operand);
    free(logits);
    return 1;
}

/* Add bias (V) to logits (n, V), and set of each row's prediction: surprisal (n) of the target, entropy (n), both in nats, and
   rank (n) of the target, from 1.
   Checked: targets are ids of a vocabulary of V tokens, which model_files.py compares when a model
   is loaded, and `_check_model` of elmo.py if a pair is given; run_pretrain.py builds the softmax
   by its vocabulary. */
void score_predictions(int64_t n, int64_t V, float *logits, const float *bias, const int64_t *targets, float *surprisal,
                       float *entropy, float *rank) {
    for (int64_t row = 0; row < n; row++) {
        float *restrict x = logits + row * V;
        add_to(x, bias, V);
        float most = largest_logit(V, x, x[0]), target = x[targets[row]];
        double sum = 0, weighted = 0, above = 0;
        for (int64_t a = 0; a < V; a += PIECE) {
            float sums[LANES] = {0}, products[LANES] = {0}, counts[LANES] = {0};
            int64_t end = at_most(a + PIECE, V), whole = end - (end - a) % LANES;
            for (int64_t k = a; k < whole; k += LANES)
                for (int64_t lane = 0; lane < LANES; lane++) {
                    float d = x[k + lane] - most, e = exp_approx(d);
                    sums[lane] += e;
                    products[lane] += e * d;
                    counts[lane] += x[k + lane] > target;
                }
            for (int64_t k = whole; k < end; k++) {
                float d = x[k] - most, e = exp_approx(d);
                sums[0] += e;
                products[0] += e * d;
                counts[0] += x[k] > target;
            }
            for (int64_t lane = 0; lane < LANES; lane++) {
                sum += sums[lane];
                weighted += products[lane];
                above += counts[lane];
            }
        }
        surprisal[row] = log(sum) + most - target;
        entropy[row] = log(sum) - weighted / sum;
        rank[row] = 1 + above;
    }
}

static void adagrad_elements(int64_t n, const float *restrict g, float scale, float rate, float epsilon, float *restrict weight,
                             float *restrict moment) {
    for (int64_t k = 0; k < n; k++) {
        float d = scale * g[k];
        moment[k] += d * d;
        weight[k] -= rate * d / (sqrtf(moment[k]) + epsilon);
    }
}

/* Adagrad over the elements begin .. end of a weight with gradient g, scaled by `scale` (for the clip of the norm). With rows:
   over rows[begin] .. rows[end] of a matrix with `width` columns, each at most once; g holds their gradients.
   Checked: Paddle's `gather` has read these rows in the forward pass, each of which is listed once. */
void adagrad(int64_t begin, int64_t end, const int64_t *rows, int64_t width, const float *g, float scale, float rate,
             float epsilon, float *weight, float *moment) {
    if (!rows) adagrad_elements(end - begin, g + begin, scale, rate, epsilon, weight + begin, moment + begin);
    for (int64_t k = begin; rows && k < end; k++)
        adagrad_elements(width, g + k * width, scale, rate, epsilon, weight + rows[k] * width, moment + rows[k] * width);
}
