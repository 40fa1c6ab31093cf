// The table of reductions. A row has: operators, DispatchStub, neutral element (infinite: the
// largest or least number of the type), step (adds the element `a` to `acc`), merge of two partial
// results x and y, final result (of `count` elements). The expressions are OpenCL C; helpers are in
// math.clh. They must be valid for vectors and for single numbers, so they cannot use C(). A row
// without operators has them in reduce_ops.cpp.

OCL_REDUCTION("", sum_stub, 0, "acc + a", "x + y", "acc")
OCL_REDUCTION("nansum", nansum_stub, 0, "IS_NAN(a) ? acc : acc + a", "x + y", "acc")
OCL_REDUCTION("mean.dim,mean.out", mean_stub, 0, "acc + a", "x + y", "acc / (T)count")
OCL_REDUCTION("prod", prod_stub, 1, "acc * a", "x * y", "acc")
OCL_REDUCTION("all", and_stub, 1, "acc * TRUTH(a)", "x * y", "acc")
OCL_REDUCTION("any", or_stub, 0, "MAX(acc, TRUTH(a))", "MAX(x, y)", "acc")
OCL_REDUCTION("amax", max_values_stub, -INFINITY, "MAX(acc, a)", "MAX(x, y)", "acc")
OCL_REDUCTION("amin", min_values_stub, INFINITY, "MIN(acc, a)", "MIN(x, y)", "acc")
