/* coefficients.h - the polynomials of the vector kernels, lowest power first. Written by
 * tools/fit_coefficients.py, which says how.
 */
#ifndef LAB_KERNELS_COEFFICIENTS_H
#define LAB_KERNELS_COEFFICIENTS_H

/* (e^r - 1 - r) / r^2, |r| <= 0.35, error times r^2: within 2^-28.07. */
static const float exp_polynomial_f32[] = {
    0x1.0p-1f, 0x1.55548ap-3f, 0x1.5554b8p-5f, 0x1.123fd4p-7f, 0x1.6d828ep-10f,
};

/* erf(z) / z - 1 in z^2, z <= 0.75: within 2^-28.76. */
static const float erf_polynomial_f32[] = {
    0x1.06eba8p-3f, -0x1.81273ap-2f, 0x1.ce2af4p-4f, -0x1.b7abf8p-6f, 0x1.4f47e8p-8f, -0x1.6279cp-11f,
};

/* (t + 13/16) Phi(-t) exp(t^2/2) in u = (t - 8) / (t + 4), 0.7 <= t <= 16, relative: within 2^-25.33. */
static const float tail_polynomial_f32[] = {
    0x1.bb4828p-2f,  -0x1.4fe25cp-5f, 0x1.8e7d36p-8f,  0x1.69293ep-9f,  -0x1.682fdap-9f,
    0x1.4d7b54p-10f, -0x1.7c563p-12f, 0x1.39956ap-14f, 0x1.acc05cp-16f,
};

/* (e^r - 1 - r) / r^2, |r| <= 0.35, error times r^2: within 2^-57.13. */
static const double exp_polynomial_f64[] = {
    0x1.0p-1,
    0x1.555555555555dp-3,
    0x1.5555555552e7fp-5,
    0x1.111111110e1f3p-7,
    0x1.6c16c17df8fa8p-10,
    0x1.a01a01b7ccac6p-13,
    0x1.a019a71cc4926p-16,
    0x1.71dde53b351e5p-19,
    0x1.28a3d15ade8d1p-22,
    0x1.af7eb131cffb3p-26,
};

/* erf(z) / z - 1 in z^2, z <= 0.75: within 2^-56.16. */
static const double erf_polynomial_f64[] = {
    0x1.06eba8214db69p-3,  -0x1.812746b0379e7p-2,  0x1.ce2f21a042bc6p-4,  -0x1.b82ce31287d1p-6,
    0x1.565bcd0e2cff1p-8,  -0x1.c02db3ecc71e5p-11, 0x1.f9a3230d38b0cp-14, -0x1.f4d1d6d0eadddp-17,
    0x1.b9daef9c333ebp-20, -0x1.5ec157bc02b12p-23, 0x1.ef47637fa286ap-27, -0x1.0544aff3d1452p-30,
};

/* (t + 13/16) Phi(-t) exp(t^2/2) in u = (t - 8) / (t + 4), 0.7 <= t <= 40, relative: within 2^-55.8. */
static const double tail_polynomial_f64[] = {
    0x1.bb4827c81f02bp-2,   -0x1.4fe261dfe62c5p-5,  0x1.8e78e989fe368p-8,   0x1.692ad6c5912dcp-9,
    -0x1.67c4ff98aa7c9p-9,  0x1.4e73d677448f6p-10,  -0x1.853440cbea32ep-12, 0x1.bae7583b41bap-15,
    0x1.f7f18f2901e95p-18,  -0x1.5e5d806972282p-18, 0x1.0d32e5eb82255p-21,  0x1.57ea7a27400b1p-22,
    -0x1.714214bd52ec9p-24, -0x1.42f11b56839d9p-26, 0x1.4f1854982447bp-27,  0x1.62b4b43dadb9bp-30,
    -0x1.2f0ae4ed5381ap-30, -0x1.8075d07bf000cp-33, 0x1.f5eb389628017p-34,  0x1.8224a6f32adp-35,
    0x1.4ebbda6142beep-38,
};

/* 2 sqrt(2/pi) */
static const float gelu_linear_high_f32 = 0x1.988454p+0f;
static const float gelu_linear_low_f32 = -0x1.857936p-25f;
/* 2 sqrt(2/pi) 0.044715 */
static const float gelu_cubic_high_f32 = 0x1.2444f2p-4f;
static const float gelu_cubic_low_f32 = 0x1.49b16ap-29f;
/* 2 sqrt(2/pi) */
static const double gelu_linear_high_f64 = 0x1.9884533d43651p+0;
static const double gelu_linear_low_f64 = -0x1.cbc0d30ebfd15p-54;
/* 2 sqrt(2/pi) 0.044715 */
static const double gelu_cubic_high_f64 = 0x1.2444f2a4d8b4bp-4;
static const double gelu_cubic_low_f64 = -0x1.6c843a29d1c7p-61;

#endif
