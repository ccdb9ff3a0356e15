/** How loud a sound is along its time: `count` values from 0 to 1, the loudest being 1. */
export function peaksOf(samples: Float32Array, count: number): number[] {
  const span = samples.length / count;
  const peaks = Array.from({ length: count }, (_, i) =>
    loudest(samples.subarray(Math.floor(i * span), Math.ceil((i + 1) * span))),
  );
  const most = Math.max(...peaks);
  return most > 0 ? peaks.map((peak) => peak / most) : peaks;
}

function loudest(samples: Float32Array): number {
  let most = 0;
  for (const sample of samples) most = Math.max(most, Math.abs(sample));
  return most;
}
