// A small layered layout. Nodes have their level already; edges over several levels pass through points between.
// Nodes of a level are ordered by the mean place of their neighbours, which removes most crossings. Pure.

const SWEEPS = 6;

// nodes: [{id, level}], edges: [{source, target}]. Returns places by id, a list of points by edge, and the size.
export function layout(nodes, edges, { across, down, width, height, gap }) {
  const levels = [];
  const place = new Map();
  const add = (item, level) => ((levels[level] ??= []).push(item), place.set(item.id, item));
  for (const node of nodes) add({ id: node.id, level: node.level, isNode: true, near: [] }, node.level);
  const chains = edges.map((edge, index) => {
    const [from, to] = [place.get(edge.source), place.get(edge.target)];
    const chain = [from];
    for (let level = from.level + 1; level < to.level; level++) {
      const between = { id: `\0${index}/${level}`, level, isNode: false, near: [] };
      add(between, level);
      chain.push(between);
    }
    chain.push(to);
    for (let i = 1; i < chain.length; i++) {
      chain[i].near.push(chain[i - 1]);
      chain[i - 1].near.push(chain[i]);
    }
    return chain;
  });
  for (const level of levels) level?.forEach((item, index) => { item.order = index; });
  const filled = levels.filter(Boolean);
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    for (const level of sweep % 2 ? [...filled].reverse() : filled) {
      const side = sweep % 2 ? 1 : -1;
      for (const item of level) {
        const near = item.near.filter((other) => Math.sign(other.level - item.level) === side);
        item.wanted = near.length ? near.reduce((sum, other) => sum + other.order / other.of, 0) / near.length : item.order / level.length;
      }
      level.sort((a, b) => a.wanted - b.wanted || a.order - b.order);
      level.forEach((item, index) => { item.order = index + 0.5; item.of = level.length; });
    }
    if (sweep === 0) filled.forEach((level) => level.forEach((item, index) => { item.order = index + 0.5; item.of = level.length; }));
  }
  const size = (item) => (item.isNode ? across : gap);
  const extents = filled.map((level) => level.reduce((sum, item) => sum + size(item), 0) + gap * (level.length - 1));
  const widest = Math.max(...extents, 0);
  filled.forEach((level, index) => {
    let at = (widest - extents[index]) / 2;
    for (const item of level) {
      item.across = at + size(item) / 2;
      item.down = index * down + height / 2;
      at += size(item) + gap;
    }
  });
  return {
    places: new Map([...place].filter(([, item]) => item.isNode).map(([id, item]) => [id, { across: item.across, down: item.down }])),
    chains: chains.map((chain) => chain.map(({ across: a, down: d }) => ({ across: a, down: d }))),
    across: widest,
    down: (filled.length - 1) * down + height,
  };
}
