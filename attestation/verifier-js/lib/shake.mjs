// SHAKE128 and SHAKE256 (FIPS 202), which WebCrypto does not have.
//
// A lane of 64 bits is two words of 32, the low one first: byte `n` of the state stands in word `n >> 2`.

const LANES = 25;
const ROUNDS = 24;
/** The domain of the two functions and the first bit of the padding (FIPS 202, sections 6.2 and B.2). */
const SUFFIX = 0x1f;
const MOVES = movesOfRhoAndPi();
const ROUND_CONSTANTS = roundConstants();

/** The output of SHAKE128 over `bytes`: each `read(count)` gives the bytes that come next. */
export function shake128(bytes) {
  return new Sponge(168, bytes);
}

/** The output of SHAKE256 over `bytes`, as above. */
export function shake256(bytes) {
  return new Sponge(136, bytes);
}

/** SPONGE[Keccak-f[1600], pad10*1, rate] (FIPS 202, section 4); the rate in bytes. */
class Sponge {
  #state = new Uint32Array(2 * LANES);
  #rate;
  #next = 0;

  constructor(rate, message) {
    this.#rate = rate;
    const padded = new Uint8Array((Math.floor(message.length / rate) + 1) * rate);
    padded.set(message);
    padded[message.length] = SUFFIX;
    padded[padded.length - 1] |= 0x80;
    for (let start = 0; start < padded.length; start += rate) {
      for (let at = 0; at < rate; at += 1) this.#state[at >> 2] ^= padded[start + at] << (8 * (at & 3));
      permute(this.#state);
    }
  }

  read(count) {
    const bytes = new Uint8Array(count);
    for (let done = 0; done < count; ) {
      if (this.#next === this.#rate) {
        permute(this.#state);
        this.#next = 0;
      }
      const part = Math.min(count - done, this.#rate - this.#next);
      for (let at = 0; at < part; at += 1) bytes[done + at] = byteOf(this.#state, this.#next + at);
      done += part;
      this.#next += part;
    }
    return bytes;
  }
}

function byteOf(state, at) {
  return (state[at >> 2] >>> (8 * (at & 3))) & 0xff;
}

/** Keccak-f[1600]: 24 rounds of theta, rho, pi, chi and iota (FIPS 202, sections 3.2 and 3.3). */
function permute(state) {
  const parities = new Uint32Array(10);
  const moved = new Uint32Array(2 * LANES);
  for (let round = 0; round < ROUNDS; round += 1) {
    theta(state, parities);
    rhoAndPi(state, moved);
    chi(moved, state);
    state[0] ^= ROUND_CONSTANTS[2 * round];
    state[1] ^= ROUND_CONSTANTS[2 * round + 1];
  }
}

/** Section 3.2.1: each lane with the parities of the column before, and of the one after turned by one. */
function theta(state, parities) {
  for (let word = 0; word < 10; word += 1) {
    parities[word] = state[word] ^ state[word + 10] ^ state[word + 20] ^ state[word + 30] ^ state[word + 40];
  }
  for (let x = 0; x < 5; x += 1) {
    const before = 2 * ((x + 4) % 5);
    const after = 2 * ((x + 1) % 5);
    const low = parities[before] ^ (parities[after] << 1) ^ (parities[after + 1] >>> 31);
    const high = parities[before + 1] ^ (parities[after + 1] << 1) ^ (parities[after] >>> 31);
    for (let word = 2 * x; word < 2 * LANES; word += 10) {
      state[word] ^= low;
      state[word + 1] ^= high;
    }
  }
}

/** Sections 3.2.2 and 3.2.3: each lane turned, and put in its new place. */
function rhoAndPi(state, moved) {
  const { own, other, turn } = MOVES;
  for (let word = 0; word < 2 * LANES; word += 1) {
    // A shift by 32 would be one by 0 here: what comes over from the other half is shifted in two steps.
    moved[word] = (state[own[word]] << turn[word]) | ((state[other[word]] >>> 1) >>> (31 - turn[word]));
  }
}

/** Section 3.2.4: each lane with the two after it in its row. */
function chi(moved, state) {
  for (let row = 0; row < 2 * LANES; row += 10) {
    for (let at = row; at < row + 6; at += 1) state[at] = moved[at] ^ (~moved[at + 2] & moved[at + 4]);
    for (let at = row + 6; at < row + 8; at += 1) state[at] = moved[at] ^ (~moved[at + 2] & moved[at - 6]);
    for (let at = row + 8; at < row + 10; at += 1) state[at] = moved[at] ^ (~moved[at - 8] & moved[at - 6]);
  }
}

/** For each word of a lane x + 5y after pi: the words that become it, and how far they are turned (algorithms 2, 3). */
function movesOfRhoAndPi() {
  const offsets = new Uint8Array(LANES);
  for (let [x, y, step] = [1, 0, 0]; step < 24; step += 1) {
    offsets[x + 5 * y] = (((step + 1) * (step + 2)) / 2) % 64;
    [x, y] = [y, (2 * x + 3 * y) % 5];
  }
  const moves = { own: new Uint8Array(2 * LANES), other: new Uint8Array(2 * LANES), turn: new Uint8Array(2 * LANES) };
  for (let word = 0; word < 2 * LANES; word += 1) {
    const [x, y] = [(word >> 1) % 5, Math.floor((word >> 1) / 5)];
    const source = ((x + 3 * y) % 5) + 5 * x;
    const half = (word & 1) ^ (offsets[source] >> 5); // turned by 32 or more, the halves change places
    moves.own[word] = 2 * source + half;
    moves.other[word] = 2 * source + (half ^ 1);
    moves.turn[word] = offsets[source] & 31;
  }
  return moves;
}

/** Low and high word of each round's constant, from the register of algorithm 5. */
function roundConstants() {
  const words = new Uint32Array(2 * ROUNDS);
  let register = 1;
  for (let round = 0; round < ROUNDS; round += 1) {
    for (let power = 0; power <= 6; power += 1) {
      const bit = 2 ** power - 1;
      words[2 * round + (bit >> 5)] |= (register & 1) << (bit & 31);
      register = (register << 1) ^ (register & 0x80 ? 0x171 : 0);
    }
  }
  return words;
}
