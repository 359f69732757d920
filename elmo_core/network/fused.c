/* The hot loops for CPUs: what lstmp.py, char_cnn.py and softmax.py else do in Paddle's operators, with one pass over the
   data in place of a dozen. Compiled by fused.py where there is a compiler; never needed.

   All matrices are row-major float32. The matrix products are those of the MKL that Paddle brings, passed in as pointers. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Matrix products */

enum { ROW_MAJOR = 101, AS_IS = 111, TRANSPOSED = 112, PACKED = 151, RIGHT_SIDE = 162 };

typedef struct { /* MKL's functions: one product, and a right side that is packed once for many products */
    void (*product)(int layout, int trans_a, int trans_b, int m, int n, int k, float alpha, const float *a, int lda,
                    const float *b, int ldb, float beta, float *c, int ldc);
    float *(*allocate)(int side, int m, int n, int k);
    void (*pack)(int layout, int side, int trans, int m, int n, int k, float alpha, const float *matrix, int ld, float *packed);
    void (*compute)(int layout, int trans_a, int trans_b, int m, int n, int k, const float *a, int lda, const float *b,
                    int ldb, float beta, float *c, int ldc);
    void (*release)(float *packed);
} blas_t;

typedef struct { /* the right side (k, n) of products to come */
    const blas_t *blas;
    const float *matrix;
    float *packed; /* null where packing does not pay */
    int trans, k, n, ld;
} right_t;

/* What is to be multiplied with `matrix`, or with its transpose, in so many products of so many rows altogether. The products
   have other numbers of rows than it is packed for, which MKL's manual leaves open: fused.py tries it, and where it does not
   work there is no `allocate`. */
static right_t right_side(const blas_t *blas, int trans, int k, int n, const float *matrix, int64_t products, int64_t rows) {
    right_t right = {blas, matrix, NULL, trans, k, n, trans == AS_IS ? n : k};
    if (blas->allocate && products > 2 && rows >= 4 * products) right.packed = blas->allocate(RIGHT_SIDE, rows / products, n, k);
    if (right.packed) blas->pack(ROW_MAJOR, RIGHT_SIDE, trans, rows / products, n, k, 1.0f, matrix, right.ld, right.packed);
    return right;
}

static void release(right_t *right) {
    if (right->packed) right->blas->release(right->packed);
}

/* c (m, n) = a (m, k) times the right side */
static void multiply(int m, const float *a, const right_t *b, float *c) {
    if (b->packed)
        b->blas->compute(ROW_MAJOR, AS_IS, PACKED, m, b->n, b->k, a, b->k, b->packed, b->ld, 0.0f, c, b->n);
    else
        b->blas->product(ROW_MAJOR, AS_IS, b->trans, m, b->n, b->k, 1.0f, a, b->k, b->matrix, b->ld, 0.0f, c, b->n);
}

static int64_t at_most(int64_t a, int64_t b) { return a < b ? a : b; }

/* Memory for n numbers that begins with a line of the cache: a vector across two lines costs twice. Null if there is none. */
static float *room(int64_t n) { return aligned_alloc(64, (n * sizeof(float) + 63) / 64 * 64); }

/* Elementary functions, written so that the compiler vectorises them */

/* exp(x) to about 1e-7 relative: 2^n * polynomial on [-ln2/2, ln2/2]. */
static inline float exponential(float x) {
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

static inline float sigmoid(float x) { return 1.0f / (1.0f + exponential(-x)); }

static inline float tangent(float x) { return 1.0f - 2.0f / (1.0f + exponential(2.0f * x)); }

static inline float clipped(float x, float bound) { return x > bound ? bound : x < -bound ? -bound : x; }

static inline void add_to(float *restrict sum, const float *restrict x, int64_t n) {
    for (int64_t k = 0; k < n; k++) sum[k] += x[k];
}

/* c (m, n) += a (m, k) times the transpose of b (n, k) */
void add_product(const blas_t *blas, int64_t m, int64_t n, int64_t k, const float *a, const float *b, float *c) {
    blas->product(ROW_MAJOR, AS_IS, TRANSPOSED, m, n, k, 1.0f, a, k, b, k, 1.0f, c, n);
}

/* The projected LSTM's loop over the steps of one direction. Rows are packed as in lstmp.py: step t has sizes[t] rows, the
   longest first. Letters: P projection, H cell, B rows, M places. */

/* One row of one step: the gates before their activations are sums (4H) + input (4H). Updates c (H), sets m (H) to what is
   projected, and where `keep` is set gates (4H) to the activations. Inlined with a constant `keep`: with a branch inside,
   compilers do not vectorise it. */
static inline __attribute__((always_inline)) void cell_forward(int64_t H, const float *restrict sums, const float *restrict input,
                                                               float *restrict c, float *restrict m, float *restrict gates,
                                                               float cell_clip, int keep) {
    for (int64_t k = 0; k < H; k++) {
        float i = sigmoid(sums[k] + input[k]);
        float j = tangent(sums[H + k] + input[H + k]);
        float f = sigmoid(sums[2 * H + k] + input[2 * H + k]);
        float o = sigmoid(sums[3 * H + k] + input[3 * H + k]);
        float cell = clipped(f * c[k] + i * j, cell_clip);
        c[k] = cell;
        m[k] = o * tangent(cell);
        if (keep) {
            gates[k] = i;
            gates[H + k] = j;
            gates[2 * H + k] = f;
            gates[3 * H + k] = o;
        }
    }
}

/* One row of one step backward: `gates` holds the activations and receives the gradients before them; d_c (H) holds the
   gradient of this step's c and receives that of the step before. */
static void cell_backward(int64_t H, float *restrict gates, const float *restrict c, const float *restrict previous_c,
                          const float *restrict d_m, float *restrict d_c, float cell_clip) {
    for (int64_t k = 0; k < H; k++) {
        float i = gates[k], j = gates[H + k], f = gates[2 * H + k], o = gates[3 * H + k];
        float t = tangent(c[k]);
        float d = d_c[k] + d_m[k] * o * (1.0f - t * t);
        d = fabsf(c[k]) < cell_clip ? d : 0.0f;
        gates[k] = d * j * i * (1.0f - i);
        gates[H + k] = d * i * (1.0f - j * j);
        gates[2 * H + k] = d * previous_c[k] * f * (1.0f - f);
        gates[3 * H + k] = d_m[k] * t * o * (1.0f - o);
        d_c[k] = d * f;
    }
}

/* The gates' input is either `inputs`: (N, 4H) products with the bias, which place a reads in row rows[a]; or `x` (M, P),
   to be multiplied together with h, and `inputs` is the bias alone.
   weight: the recurrent one (P, 4H), or with x the input's above it (2P, 4H). h (B, P), c (B, H): the state, from the first
   to the last. outputs: (M, P). sums: room for one step's products (B, 4H), used by every step. For the backward pass
   cells (M, H) and gates (M, 4H) are given, else null, and read: what is multiplied with the weight, (n, P) or (n, 2P), and m:
   what is projected, (n, H), have n = M, else B. */
void lstmp_forward(const blas_t *blas, int64_t steps, const int64_t *sizes, int64_t P, int64_t H, const float *inputs,
                   const int64_t *rows, const float *x, const float *weight, const float *projection, float cell_clip,
                   float proj_clip, float *h, float *c, float *outputs, float *sums, float *read, float *m, float *gates,
                   float *cells) {
    int64_t places = 0, a = 0, K = x ? 2 * P : P;
    for (int64_t t = 0; t < steps; t++) places += sizes[t];
    right_t recurrent = right_side(blas, AS_IS, K, 4 * H, weight, steps, places);
    right_t down = right_side(blas, AS_IS, H, P, projection, steps, places);
    const float *previous = h;
    for (int64_t t = 0; t < steps; t++) {
        int64_t n = sizes[t], place = cells ? a : 0;
        float *step_read = read + place * K, *step_m = m + place * H, *output = outputs + a * P;
        for (int64_t r = 0; r < n; r++) {
            if (x) memcpy(step_read + r * K, x + (a + r) * P, P * sizeof(float));
            memcpy(step_read + (r + 1) * K - P, previous + r * P, P * sizeof(float));
        }
        multiply(n, step_read, &recurrent, sums);
        for (int64_t r = 0; r < n; r++) {
            const float *input = x ? inputs : inputs + rows[a + r] * 4 * H;
            const float *row = sums + r * 4 * H;
            if (cells)
                cell_forward(H, row, input, c + r * H, step_m + r * H, gates + (a + r) * 4 * H, cell_clip, 1);
            else
                cell_forward(H, row, input, c + r * H, step_m + r * H, NULL, cell_clip, 0);
        }
        if (cells) memcpy(cells + a * H, c, n * H * sizeof(float));
        multiply(n, step_m, &down, output);
        for (int64_t k = 0; k < n * P; k++) output[k] = clipped(output[k], proj_clip);
        memcpy(h, output, n * P * sizeof(float));
        previous = output;
        a += n;
    }
    release(&recurrent);
    release(&down);
}

/* gates: the activations, which become the gradients before them, whose sum is d_bias (4H); d_h, d_c: of the last state,
   which become those of the first; d_projected (M, P) receives the gradient of what was projected, d_x (M, P), null where
   there was no x, that of x; d_m and d_read are room for (B, H) and (B, 2P). */
void lstmp_backward(const blas_t *blas, int64_t steps, const int64_t *sizes, int64_t P, int64_t H, const float *weight,
                    const float *projection, float cell_clip, float proj_clip, const float *first_c, const float *outputs,
                    const float *d_outputs, const float *cells, float *gates, float *d_h, float *d_c, float *d_projected,
                    float *d_x, float *d_bias, float *d_m, float *d_read) {
    int64_t a = 0, K = d_x ? 2 * P : P;
    for (int64_t t = 0; t < steps; t++) a += sizes[t];
    right_t up = right_side(blas, TRANSPOSED, P, H, projection, steps, a);
    right_t recurrent = right_side(blas, TRANSPOSED, 4 * H, K, weight, steps, a);
    memset(d_bias, 0, 4 * H * sizeof(float));
    for (int64_t t = steps - 1; t >= 0; t--) {
        int64_t n = sizes[t];
        a -= n;
        float *step_gates = gates + a * 4 * H, *d_output = d_projected + a * P;
        const float *c = cells + a * H, *previous_c = t ? cells + (a - sizes[t - 1]) * H : first_c;
        for (int64_t k = 0; k < n * P; k++) {
            float d = d_h[k] + d_outputs[a * P + k];
            d_output[k] = fabsf(outputs[a * P + k]) < proj_clip ? d : 0.0f;
        }
        multiply(n, d_output, &up, d_m);
        for (int64_t r = 0; r < n; r++) {
            cell_backward(H, step_gates + r * 4 * H, c + r * H, previous_c + r * H, d_m + r * H, d_c + r * H, cell_clip);
            add_to(d_bias, step_gates + r * 4 * H, 4 * H);
        }
        multiply(n, step_gates, &recurrent, d_x ? d_read : d_h);
        for (int64_t r = 0; d_x && r < n; r++) {
            memcpy(d_x + (a + r) * P, d_read + r * K, P * sizeof(float));
            memcpy(d_h + r * P, d_read + r * K + P, P * sizeof(float));
        }
    }
    release(&up);
    release(&recurrent);
}

/* The character CNN: convolutions, maximum over positions, activation. A token's vector needs the windows that begin at its
   characters and one of padding alone. Tokens are taken in blocks of about ROWS windows, which stay in the cache.
   ids (N, C), lengths (N), table (characters, D); filter k has widths[k], numbers[k], a weight (width * D, number), a bias. */

enum { ROWS = 128 }; /* which is more than a token has windows: fused.py refuses others */

typedef struct {
    const blas_t *blas;
    int64_t columns, dim;
    const int32_t *ids, *lengths;
    const float *table;
    int64_t n_filters;
    const int64_t *widths, *numbers;
} cnn_t;

static int64_t n_windows(const cnn_t *cnn, int64_t token, int64_t width) {
    int64_t last = cnn->columns - width, length = cnn->lengths[token];
    return (length < last ? length : last) + 1;
}

/* The windows (rows, width * D) of tokens a .. b, one token after another. Returns how many. */
static int64_t fill_windows(const cnn_t *cnn, int64_t a, int64_t b, int64_t width, float *windows) {
    int64_t D = cnn->dim, rows = 0;
    for (int64_t token = a; token < b; token++) {
        const int32_t *ids = cnn->ids + token * cnn->columns;
        for (int64_t s = 0, n = n_windows(cnn, token, width); s < n; s++, rows++)
            for (int64_t w = 0; w < width; w++)
                memcpy(windows + (rows * width + w) * D, cnn->table + ids[s + w] * D, D * sizeof(float));
    }
    return rows;
}

/* The end of the block of tokens that begins at a. */
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

/* Of tokens begin .. end: features (N, F), and places (N, F), which window each is from. Returns whether there was memory. */
int cnn_forward(const blas_t *blas, int64_t columns, int64_t dim, const int32_t *ids, const int32_t *lengths, const float *table, int64_t n_filters,
                const int64_t *widths, const int64_t *numbers, int64_t begin, int64_t end, const float *const *weights, const float *const *biases,
                int is_tanh, float *features, uint8_t *places) {
    const cnn_t cnn = {blas, columns, dim, ids, lengths, table, n_filters, widths, numbers};
    int64_t width = largest(cnn.widths, cnn.n_filters), number = largest(cnn.numbers, cnn.n_filters), F = 0, F0 = 0;
    for (int64_t k = 0; k < cnn.n_filters; k++) F += cnn.numbers[k];
    float *windows = room(ROWS * width * cnn.dim), *sums = room(ROWS * number);
    int32_t *place = malloc(number * sizeof(int32_t));
    int whole = windows && sums && place;
    for (int64_t a = begin, b; whole && a < end; a = b) {
        b = block_end(&cnn, a, end);
        F0 = 0;
        for (int64_t k = 0; k < cnn.n_filters; F0 += cnn.numbers[k++]) {
            int64_t K = cnn.widths[k] * cnn.dim, n = cnn.numbers[k];
            int64_t rows = fill_windows(&cnn, a, b, cnn.widths[k], windows);
            cnn.blas->product(ROW_MAJOR, AS_IS, AS_IS, rows, n, K, 1.0f, windows, K, weights[k], n, 0.0f, sums, n);
            const float *row = sums, *bias = biases[k];
            for (int64_t token = a; token < b; token++) {
                float *restrict best = features + token * F + F0;
                memcpy(best, row, n * sizeof(float));
                memset(place, 0, n * sizeof(int32_t));
                row += n;
                for (int32_t s = 1, last = n_windows(&cnn, token, cnn.widths[k]); s < last; s++, row += n)
                    for (int64_t f = 0; f < n; f++) {
                        place[f] = row[f] > best[f] ? s : place[f];
                        best[f] = row[f] > best[f] ? row[f] : best[f];
                    }
                if (is_tanh)
                    for (int64_t f = 0; f < n; f++) best[f] = tangent(best[f] + bias[f]);
                else
                    for (int64_t f = 0; f < n; f++) best[f] = best[f] + bias[f] < 0.0f ? 0.0f : best[f] + bias[f];
                for (int64_t f = 0; places && f < n; f++) places[token * F + F0 + f] = place[f];
            }
        }
    }
    free(windows);
    free(sums);
    free(place);
    return whole;
}

/* A feature is one window's product with one filter: d times either is added to the other's gradient. All of K elements. */
static void couple(int64_t K, float d, const float *restrict window, const float *restrict filter, float *restrict d_window,
                   float *restrict d_filter) {
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

/* Adds the gradients of tokens begin .. end to d_table (characters, D), d_weights and d_biases. d_features: (N, F). Of all windows
   of a token a feature comes from one: a product over all of them would be of zeros mostly. Returns whether there was memory. */
int cnn_backward(const blas_t *blas, int64_t columns, int64_t dim, const int32_t *ids, const int32_t *lengths, const float *table, int64_t n_filters,
                const int64_t *widths, const int64_t *numbers, int64_t begin, int64_t end, const float *const *weights, int is_tanh, const float *features,
                 const uint8_t *places, const float *d_features, float *d_table, float *const *d_weights,
                 float *const *d_biases) {
    const cnn_t cnn = {blas, columns, dim, ids, lengths, table, n_filters, widths, numbers};
    int64_t width = largest(cnn.widths, cnn.n_filters), number = largest(cnn.numbers, cnn.n_filters), D = cnn.dim, F = 0;
    for (int64_t k = 0; k < cnn.n_filters; k++) F += cnn.numbers[k];
    enum { SOME = 16 };
    float *windows = room(ROWS * width * D), *d_windows = room(ROWS * width * D);
    float *filters = room(number * width * D), *d_filters = room(number * width * D);
    int whole = windows && d_windows && filters && d_filters;
    for (int64_t k = 0, F0 = 0; whole && k < cnn.n_filters; F0 += cnn.numbers[k++]) {
        int64_t K = cnn.widths[k] * D, n = cnn.numbers[k], first[ROWS];
        for (int64_t f = 0; f < n; f++) /* one filter after another, as the windows are */
            for (int64_t j = 0; j < K; j++) filters[f * K + j] = weights[k][j * n + f];
        memset(d_filters, 0, n * K * sizeof(float));
        for (int64_t a = begin, b; a < end; a = b) {
            b = block_end(&cnn, a, end);
            int64_t rows = fill_windows(&cnn, a, b, cnn.widths[k], windows);
            for (int64_t token = a, row = 0; token < b; row += n_windows(&cnn, token++, cnn.widths[k])) first[token - a] = row;
            memset(d_windows, 0, rows * K * sizeof(float));
            for (int64_t f0 = 0; f0 < n; f0 += SOME)
                for (int64_t token = a; token < b; token++)
                    for (int64_t f = f0, at = token * F + F0 + f0; f < at_most(f0 + SOME, n); f++, at++) {
                        float slope = is_tanh ? 1.0f - features[at] * features[at] : features[at] > 0.0f;
                        float d = d_features[at] * slope;
                        int64_t window = (first[token - a] + places[at]) * K;
                        if (d == 0.0f) continue;
                        d_biases[k][f] += d;
                        couple(K, d, windows + window, filters + f * K, d_windows + window, d_filters + f * K);
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
    return whole;
}

/* A highway's gate: y = x + g * (r - x), r = relu(t + t_bias), g = sigmoid(c + c_bias). t and c (N, F) receive r and g. */
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

/* d_x (N, F) is the gradient of x as far as it comes through the gate; r and g become those of t and c, whose sums over the
   rows are added to d_t_bias and d_c_bias (F). */
static void gate_row_backward(int64_t F, const float *restrict x, const float *restrict d_y, float *restrict r,
                              float *restrict g, float *restrict d_x, float *restrict d_t_bias, float *restrict d_c_bias) {
    for (int64_t k = 0; k < F; k++) {
        float above = r[k], open = g[k];
        d_x[k] = d_y[k] * (1.0f - open);
        r[k] = above > 0.0f ? d_y[k] * open : 0.0f;
        g[k] = d_y[k] * (above - x[k]) * open * (1.0f - open);
        d_t_bias[k] += r[k];
        d_c_bias[k] += g[k];
    }
}

void gate_backward(int64_t begin, int64_t end, int64_t F, const float *x, const float *d_y, float *r, float *g, float *d_x,
                   float *d_t_bias, float *d_c_bias) {
    for (int64_t at = begin * F; at < end * F; at += F)
        gate_row_backward(F, x + at, d_y + at, r + at, g + at, d_x + at, d_t_bias, d_c_bias);
}

/* Of each row of logits (n, S): highest (n) becomes the largest of itself and of the row, the logits become
   exp(logit - highest), and total (n) their sum, which many small ones can make up: pieces of it are added in double. */
void exponentials(int64_t n, int64_t S, float *logits, float *highest, float *total) {
    enum { LANES = 16, PIECE = 64 * LANES }; /* each lane with a maximum and a sum of its own, for the sake of vectors */
    for (int64_t row = 0; row < n; row++) {
        float *restrict x = logits + row * S, most = highest[row], tops[LANES];
        for (int64_t lane = 0; lane < LANES; lane++) tops[lane] = most;
        int64_t whole = S - S % LANES;
        for (int64_t k = 0; k < whole; k += LANES)
            for (int64_t lane = 0; lane < LANES; lane++) tops[lane] = x[k + lane] > tops[lane] ? x[k + lane] : tops[lane];
        for (int64_t k = whole; k < S; k++) tops[0] = x[k] > tops[0] ? x[k] : tops[0];
        for (int64_t lane = 0; lane < LANES; lane++) most = tops[lane] > most ? tops[lane] : most;
        double sum = 0;
        for (int64_t a = 0; a < whole; a += PIECE) {
            float sums[LANES] = {0};
            for (int64_t k = a; k < at_most(a + PIECE, whole); k += LANES)
                for (int64_t lane = 0; lane < LANES; lane++) sums[lane] += x[k + lane] = exponential(x[k + lane] - most);
            for (int64_t lane = 0; lane < LANES; lane++) sum += sums[lane];
        }
        for (int64_t k = whole; k < S; k++) sum += x[k] = exponential(x[k] - most);
        total[row] = sum;
        highest[row] = most;
    }
}

static void scale_and_add(int64_t n, float *restrict x, float factor, float *restrict sum) {
    for (int64_t k = 0; k < n; k++) sum[k] += x[k] *= factor;
}

/* The sampled softmax of M places: h (M, P), table (S, P) and bias (S) of the candidates, of each place its target's logit
   `true_logits` (M), and the n_hits pairs (row, candidate), rows rising, where a candidate is the target itself, which are
   left out. Sets loss to the mean over the places, d_h (M, P), d_table (S, P), d_bias (S), and d_true (M) to the gradient of
   the targets' logits. The logits of SLICE places at a time stay in the cache. Returns whether there was memory. */
int softmax_loss(const blas_t *blas, int64_t M, int64_t S, int64_t P, const float *h, const float *table, const float *bias,
                 const float *true_logits, int64_t n_hits, const int64_t *hit_rows, const int64_t *hit_candidates, float *loss,
                 float *d_h, float *d_table, float *d_bias, float *d_true) {
    enum { SLICE = 128 };
    float *logits = room(at_most(SLICE, M) * S);
    if (!logits) return 0;
    int64_t slices = (M + SLICE - 1) / SLICE, hit = 0;
    right_t across = right_side(blas, TRANSPOSED, P, S, table, slices, M), back = right_side(blas, AS_IS, S, P, table, slices, M);
    double sum = 0;
    memset(d_table, 0, S * P * sizeof(float));
    memset(d_bias, 0, S * sizeof(float));
    for (int64_t a = 0; a < M; a += SLICE) {
        int64_t n = at_most(SLICE, M - a);
        multiply(n, h + a * P, &across, logits);
        for (int64_t row = 0; row < n; row++) {
            float *x = logits + row * S, true_logit = true_logits[a + row], highest = true_logit, total;
            add_to(x, bias, S);
            for (; hit < n_hits && hit_rows[hit] == a + row; hit++) x[hit_candidates[hit]] = -1e30f;
            exponentials(1, S, x, &highest, &total);
            float chance = exponential(true_logit - highest);
            total += chance;
            sum += logf(total) + highest - true_logit;
            d_true[a + row] = chance / (total * M) - 1.0f / M;
            scale_and_add(S, x, 1.0f / (total * M), d_bias);
        }
        multiply(n, logits, &back, d_h + a * P);
        blas->product(ROW_MAJOR, TRANSPOSED, AS_IS, S, P, n, 1.0f, logits, S, h + a * P, P, 1.0f, d_table, P);
    }
    *loss = sum / M;
    release(&across);
    release(&back);
    free(logits);
    return 1;
}

static void adagrad_elements(int64_t n, const float *restrict g, float scale, float rate, float epsilon, float *restrict weight,
                             float *restrict moment) {
    for (int64_t k = 0; k < n; k++) {
        float d = scale * g[k];
        moment[k] += d * d;
        weight[k] -= rate * d / (sqrtf(moment[k]) + epsilon);
    }
}

/* Adagrad over the elements begin .. end of a weight, whose gradient g counts by `scale` (the clip of its norm). With rows:
   over the rows[begin] .. rows[end] of a matrix of `width` columns, each of which stands there once; g holds their gradients. */
void adagrad(int64_t begin, int64_t end, const int64_t *rows, int64_t width, const float *g, float scale, float rate,
             float epsilon, float *weight, float *moment) {
    if (!rows) adagrad_elements(end - begin, g + begin, scale, rate, epsilon, weight + begin, moment + begin);
    for (int64_t k = begin; rows && k < end; k++)
        adagrad_elements(width, g + k * width, scale, rate, epsilon, weight + rows[k] * width, moment + rows[k] * width);
}
