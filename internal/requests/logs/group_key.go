package logs

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"math/rand/v2"
)

// Key is the 128-bit hash of a key. A collision among even 10^9 keys is less likely (2^-69)
// than a memory error, so texts are not compared.
type Key struct{ slot, tag uint64 }

// Seeds of the hashes. They are random in each process, so clients cannot construct collisions.
var (
	seeds   = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}
	secrets = [4]uint64{rand.Uint64(), rand.Uint64(), rand.Uint64(), rand.Uint64()}
	lengths = func() (all [17]uint64) {
		for i := range all {
			all[i] = rand.Uint64()
		}
		return all
	}()
)

// hashOf returns the hash of a text. Short texts, which are most, become two numbers that are
// multiplied to 128 bits twice (as in wyhash). Two maphash calls would take three times as long.
func hashOf(text []byte) Key {
	var a, b uint64
	n := len(text)
	switch {
	case n > 16:
		return Key{maphash.Bytes(seeds[0], text), maphash.Bytes(seeds[1], text)}
	case n >= 8:
		a, b = binary.LittleEndian.Uint64(text), binary.LittleEndian.Uint64(text[n-8:])
	case n >= 4:
		a, b = uint64(binary.LittleEndian.Uint32(text)), uint64(binary.LittleEndian.Uint32(text[n-4:]))
	case n > 0:
		a = uint64(text[0]) | uint64(text[n>>1])<<8 | uint64(text[n-1])<<16
	}
	b ^= lengths[n]
	hi, lo := bits.Mul64(a^secrets[0], b^secrets[1])
	high, low := bits.Mul64(a^secrets[2], b^secrets[3])
	return Key{hi ^ lo, high ^ low}
}

// Then returns the hash of a text of several parts from the hash of the first parts and the next.
func (k Key) Then(next Key) Key {
	// The multipliers are odd, so no part is lost, and different, so the order matters.
	return Key{bits.RotateLeft64(k.slot, 23)*0x9e3779b97f4a7c15 ^ next.slot, bits.RotateLeft64(k.tag, 29)*0xc2b2ae3d27d4eb4f ^ next.tag}
}

// Separator separates the parts of a key.
const Separator = 0

// HashParts returns the hash of a text of several parts.
func HashParts(text []byte) Key {
	part, rest, more := bytes.Cut(text, []byte{Separator})
	k := hashOf(part)
	for more {
		part, rest, more = bytes.Cut(rest, []byte{Separator})
		k = k.Then(hashOf(part))
	}
	return k
}

// keys holds the texts of a table's keys in pages.
type keys struct {
	pages [][]byte
	where [][]uint64 // page<<40 | begin<<20 | length, in chunks like the groups
	n     int
}

const (
	keyPage  = 1 << 18
	mostText = 256 << 20 // limit for all keys, in bytes
)

// full reports whether a new text would exceed the limits. Clients choose the length of URLs,
// and each URL may be different.
func (k *keys) full(text []byte) bool {
	last := len(k.pages) - 1
	return len(text) > keyPage || last >= mostText/keyPage-1 && len(k.pages[last])+len(text) > keyPage
}

func (k *keys) add(text []byte) {
	last := len(k.pages) - 1
	if last < 0 || len(k.pages[last])+len(text) > keyPage {
		k.pages = append(k.pages, make([]byte, 0, keyPage))
		last++
	}
	begin := len(k.pages[last])
	k.pages[last] = append(k.pages[last], text...)
	if k.n&(chunk-1) == 0 {
		k.where = append(k.where, make([]uint64, chunk))
	}
	k.where[k.n>>chunkBits][k.n&(chunk-1)] = uint64(last)<<40 | uint64(begin)<<20 | uint64(len(text))
	k.n++
}

func (k *keys) at(i int) []byte {
	w := k.where[i>>chunkBits][i&(chunk-1)]
	page := k.pages[w>>40]
	begin := w >> 20 & (1<<20 - 1)
	return page[begin : begin+w&(1<<20-1) : begin+w&(1<<20-1)]
}

func (k *keys) hash(i int) Key { return HashParts(k.at(i)) }
