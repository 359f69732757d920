/* The projected LSTM's loop over the steps of one direction, for CPUs: what lstmp.py does in Paddle's operators, with one
   pass over the gates in place of a dozen. Compiled by fused.py where there is a compiler; never needed.

   Rows are packed as in lstmp.py: step t has sizes[t] rows, the longest first. Letters: P projection, H cell, B rows.
   All matrices are row-major float32. The matrix product is the one that Paddle brings, passed in as a pointer. */

#include <math.h>
#include <stdint.h>
#include <string.h>

typedef void (*product_t)(int layout, int trans_a, int trans_b, int m, int n, int k, float alpha, const float *a, int lda,
                          const float *b, int ldb, float beta, float *c, int ldc);
enum { ROW_MAJOR = 101, AS_IS = 111, TRANSPOSED = 112 };

/* exp(x) to about 1e-7 relative: 2^n * polynomial on [-ln2/2, ln2/2]. Written so that the compiler vectorises it. */
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

/* One row of one step: gates (4H) before their activations, without the input's part, which `input` (4H) adds.
   Updates c (H), sets m (H) to what is projected, and where `keep` is set leaves the activations in `gates`. Inlined with
   a constant `keep`: with a branch inside, compilers do not vectorise it. */
static inline __attribute__((always_inline)) void cell_forward(int64_t H, float *restrict gates, const float *restrict input, float *restrict c,
                         float *restrict m, float cell_clip, int keep) {
    for (int64_t k = 0; k < H; k++) {
        float i = sigmoid(gates[k] + input[k]);
        float j = tangent(gates[H + k] + input[H + k]);
        float f = sigmoid(gates[2 * H + k] + input[2 * H + k]);
        float o = sigmoid(gates[3 * H + k] + input[3 * H + k]);
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

/* inputs: (N, 4H) input products with the bias, read by rows[place] or, where rows is null, by the place itself.
   h (B, P), c (B, H): the state, from the first to the last. outputs: (M, P).
   gates, m: (M, 4H), (M, H) where cells (M, H) is given, for the backward pass; else room for one step. */
void lstmp_forward(product_t product, int64_t steps, const int64_t *sizes, int64_t P, int64_t H, const float *inputs,
                   const int64_t *rows, const float *recurrent, const float *projection, float cell_clip,
                   float proj_clip, float *h, float *c, float *outputs, float *gates, float *m, float *cells) {
    int64_t a = 0;
    const float *previous = h;
    for (int64_t t = 0; t < steps; t++) {
        int64_t n = sizes[t], place = cells ? a : 0;
        float *step_gates = gates + place * 4 * H, *step_m = m + place * H, *output = outputs + a * P;
        product(ROW_MAJOR, AS_IS, AS_IS, n, 4 * H, P, 1.0f, previous, P, recurrent, 4 * H, 0.0f, step_gates, 4 * H);
        for (int64_t r = 0; r < n; r++) {
            const float *input = inputs + (rows ? rows[a + r] : a + r) * 4 * H;
            float *row_gates = step_gates + r * 4 * H;
            if (cells)
                cell_forward(H, row_gates, input, c + r * H, step_m + r * H, cell_clip, 1);
            else
                cell_forward(H, row_gates, input, c + r * H, step_m + r * H, cell_clip, 0);
        }
        if (cells) memcpy(cells + a * H, c, n * H * sizeof(float));
        product(ROW_MAJOR, AS_IS, AS_IS, n, P, H, 1.0f, step_m, H, projection, P, 0.0f, output, P);
        for (int64_t k = 0; k < n * P; k++) output[k] = clipped(output[k], proj_clip);
        memcpy(h, output, n * P * sizeof(float));
        previous = output;
        a += n;
    }
}

/* gates: the activations, which become the gradients before them; d_h, d_c: of the last state, which become those of the
   first; d_projected (M, P) receives the gradient of what was projected; d_m is room for (B, H). */
void lstmp_backward(product_t product, int64_t steps, const int64_t *sizes, int64_t P, int64_t H, const float *recurrent,
                    const float *projection, float cell_clip, float proj_clip, const float *first_c, const float *outputs,
                    const float *d_outputs, const float *cells, float *gates, float *d_h, float *d_c,
                    float *d_projected, float *d_m) {
    int64_t a = 0;
    for (int64_t t = 0; t < steps; t++) a += sizes[t];
    for (int64_t t = steps - 1; t >= 0; t--) {
        int64_t n = sizes[t];
        a -= n;
        float *step_gates = gates + a * 4 * H, *d_output = d_projected + a * P;
        const float *c = cells + a * H, *previous_c = t ? cells + (a - sizes[t - 1]) * H : first_c;
        for (int64_t k = 0; k < n * P; k++) {
            float d = d_h[k] + d_outputs[a * P + k];
            d_output[k] = fabsf(outputs[a * P + k]) < proj_clip ? d : 0.0f;
        }
        product(ROW_MAJOR, AS_IS, TRANSPOSED, n, H, P, 1.0f, d_output, P, projection, P, 0.0f, d_m, H);
        for (int64_t r = 0; r < n; r++)
            cell_backward(H, step_gates + r * 4 * H, c + r * H, previous_c + r * H, d_m + r * H, d_c + r * H, cell_clip);
        product(ROW_MAJOR, AS_IS, TRANSPOSED, n, P, 4 * H, 1.0f, step_gates, 4 * H, recurrent, 4 * H, 0.0f, d_h, P);
    }
}
