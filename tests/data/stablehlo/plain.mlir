module @jit__lambda_ attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["dp"=2, "fsdp"=2, "tp"=2]>
  func.func public @main(%arg0: tensor<4xui8> {sdy.sharding = #sdy.sharding<@mesh, [{"fsdp"}]>}, %arg1: tensor<32x16xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"tp"}, {"dp", "fsdp"}]>}, %arg2: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"fsdp"}, {"tp"}]>}, %arg3: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"tp", "fsdp"}, {}]>}, %arg4: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"fsdp", "dp"}]>}, %arg5: tensor<2x2x2xi1> {sdy.sharding = #sdy.sharding<@mesh, [{"tp"}, {"dp"}, {"fsdp"}]>}, %arg6: tensor<8xf16> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg7: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"tp"}]>}, %arg8: tensor<4xcomplex<f32>> {sdy.sharding = #sdy.sharding<@mesh, [{"dp", "tp"}]>}, %arg9: tensor<4x4xf8E4M3FN> {sdy.sharding = #sdy.sharding<@mesh, [{"dp"}, {}]>}, %arg10: tensor<i32>) -> (tensor<8xf32> {jax.result_info = "result"}) {
    %cst = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %1 = stablehlo.multiply %arg7, %0 : tensor<8xf32>
    return %1 : tensor<8xf32>
  }
}
