/* The elementwise parts of a time step of projected LSTMs, forward and backward. gpu_lstm.py runs the products between them.
   NVRTC compiles this for GPUs, a C compiler for the tests.

   A step has the first `rows` rows of each of `directions` LSTMs. An array of this step alone is (directions, rows, width);
   one of all steps is (directions, entries, width), where the step's rows begin at `first`, and those of the step before
   `before` rows earlier; c and h begin with `batch` rows more, the initial states. A clip of INFINITY is none.

   Nothing is checked here: gpu_lstm.py counts rows and places from the batch sizes of
   `Packing.from_lengths`, and allocates the arrays by them. */
#ifdef __CUDACC__
#define KERNEL extern "C" __global__ void
#define FUNCTION static __device__ float
#define EACH_ROW for (int k = blockIdx.y; k < directions * rows; k += gridDim.y)
#define EACH_UNIT for (int u = blockIdx.x * blockDim.x + threadIdx.x; u < width; u += gridDim.x * blockDim.x)
#else
#include <math.h>
#define KERNEL void
#define FUNCTION static float
#define EACH_ROW for (int k = 0; k < directions * rows; k++)
#define EACH_UNIT for (int u = 0; u < width; u++)
#endif
#define ROW(array, length, start, columns) ((array) + ((long long)(k / rows) * (length) + (start) + k % rows) * (columns))
#define STEP int directions, int rows, int width, int batch, int entries, int first, int before, float clip

FUNCTION sigmoid(float x) { return 1 / (1 + expf(-x)); }
FUNCTION clipped(float x, float clip) { return x > clip ? clip : x < -clip ? -clip : x; } /* NaN stays NaN */

/* gates: the inputs' products, replaced by the activations, each row i, j, f, o. products: those of the h before.
   m: the projection's input. */
KERNEL cell_forward(STEP, float forget_bias, const float *bias, const float *products, float *gates, float *c, float *m) {
    EACH_ROW {
        const float *b = bias + k / rows * 4 * width, *p = ROW(products, rows, 0, 4 * width);
        float *g = ROW(gates, entries, first, 4 * width), *to_m = ROW(m, rows, 0, width);
        float *cell = ROW(c, batch + entries, batch + first, width), *last = cell - (long long)before * width;
        EACH_UNIT {
            int at_j = u + width, at_f = at_j + width, at_o = at_f + width;
            float i = sigmoid(g[u] + p[u] + b[u]), j = tanhf(g[at_j] + p[at_j] + b[at_j]);
            float f = sigmoid(g[at_f] + p[at_f] + b[at_f] + forget_bias), o = sigmoid(g[at_o] + p[at_o] + b[at_o]);
            float next = clipped(f * last[u] + i * j, clip);
            g[u] = i, g[at_j] = j, g[at_f] = f, g[at_o] = o, cell[u] = next, to_m[u] = o * tanhf(next);
        }
    }
}

/* Clips the projected m in place, and copies it to h. */
KERNEL clip_forward(STEP, float *projected, float *h) {
    EACH_ROW {
        float *x = ROW(projected, rows, 0, width), *output = ROW(h, batch + entries, batch + first, width);
        EACH_UNIT output[u] = x[u] = clipped(x[u], clip);
    }
}

/* The gradient of what was clipped, for the step and among all of them, and a copy of the h before. The gradient of h is that
   of the output, plus `products` of the `after` rows of the step after, or of the final state's d_h in the other rows. */
KERNEL clip_backward(STEP, int after, const float *h, const float *d_outputs, const float *products, const float *d_h,
                     float *step, float *d_projected, float *h_before) {
    EACH_ROW {
        const float *output = ROW(h, batch + entries, batch + first, width), *last = output - (long long)before * width;
        const float *d_next = k % rows < after ? ROW(products, after, 0, width) : ROW(d_h, batch, 0, width);
        const float *d_output = ROW(d_outputs, entries, first, width);
        float *to_step = ROW(step, rows, 0, width), *to_all = ROW(d_projected, entries, first, width);
        float *to_before = ROW(h_before, entries, first, width);
        EACH_UNIT {
            float d = fabsf(output[u]) < clip ? d_output[u] + d_next[u] : 0, h_last = last[u];
            to_step[u] = to_all[u] = d, to_before[u] = h_last;
        }
    }
}

/* gates: the activations, replaced by the gradients before them, which are copied to `step`. d_c: the gradient of the cell,
   replaced by that of the cell before. m: computed again. */
KERNEL cell_backward(STEP, const float *d_m, const float *c, float *d_c, float *gates, float *step, float *m) {
    EACH_ROW {
        const float *cell = ROW(c, batch + entries, batch + first, width), *last = cell - (long long)before * width;
        const float *d = ROW(d_m, rows, 0, width);
        float *g = ROW(gates, entries, first, 4 * width), *to_step = ROW(step, rows, 0, 4 * width);
        float *d_cell = ROW(d_c, batch, 0, width), *to_m = ROW(m, entries, first, width);
        EACH_UNIT {
            int at_j = u + width, at_f = at_j + width, at_o = at_f + width;
            float i = g[u], j = g[at_j], f = g[at_f], o = g[at_o], t = tanhf(cell[u]), c_last = last[u];
            float d_sum = fabsf(cell[u]) < clip ? d_cell[u] + d[u] * o * (1 - t * t) : 0, d_out = d[u] * t * o * (1 - o);
            to_step[u] = g[u] = d_sum * j * i * (1 - i);
            to_step[at_j] = g[at_j] = d_sum * i * (1 - j * j);
            to_step[at_f] = g[at_f] = d_sum * c_last * f * (1 - f);
            to_step[at_o] = g[at_o] = d_out;
            d_cell[u] = d_sum * f, to_m[u] = o * t;
        }
    }
}
