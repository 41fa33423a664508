pa = PartitionAxis(head_axis="tp", batch_axis=("fsdp","dp"))
class C:
  def rules(self):
    pm = self.pm
    return ((r"kernel", pm.resolve(ColumnWise)), ("x", Replicated))
