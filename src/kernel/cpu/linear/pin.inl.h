// What keeps g++ from moving the loads of an unrolled body up to its beginning, where they take the
// registers of the sums: tiles lost a fifth to a third of their speed so (measured:
// bench/README.md).

// The vector is computed before what follows and stays where it is: no instruction.
template <typename Vector>
FLARE_ALWAYS_INLINE inline void pin(Vector& vector) {
  asm volatile("" : "+v"(vector));
}
