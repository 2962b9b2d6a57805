// Package source gives the lines of logs in blocks: of files plain or compressed, of
// directories, of a pipe, of a log that grows.
package source

import (
	"bytes"
	"errors"
	"io"
)

// Block is whole lines of one log.
type Block struct {
	Log  int    // which one, in the order of the logs
	Seq  int    // the block's number in its log, from 0
	Data []byte // each line ends with \n, but for the last of a log
	// Skipped is how many lines of this log, right before this block, were longer than
	// a block and are in none.
	Skipped int
}

// Size is of a block, in bytes: 1 MiB is as fast as larger ones, and what one is at work
// on stays in the second-level cache.
const Size = 1 << 20

// cut reads r to its end and gives its blocks to f, which owns them: they come from get.
// to is how far r was read, to the end of a block. wholeLines leaves out what stands
// behind the last end of line.
func cut(r io.Reader, log int, wholeLines bool, get func() *Block, f func(b *Block, to int64) error) error {
	var rest []byte // of the last block: a line that is not whole
	to := int64(0)
	skipping, skipped := false, 0
	from := int64(0) // where the line begins that is skipped
	for seq := 0; ; {
		b := get()
		b.Log, b.Seq, b.Skipped = log, seq, 0
		b.Data = append(b.Data[:0], rest...)
		n, broken := fill(r, b.Data[len(b.Data):cap(b.Data)])
		b.Data = b.Data[:len(b.Data)+n]
		to += int64(n + len(rest))
		over := broken != nil // what was there before an error counts
		if errors.Is(broken, io.EOF) {
			broken = nil
		}
		if skipping {
			end := bytes.IndexByte(b.Data, '\n')
			skipping = end < 0
			if end < 0 {
				end = len(b.Data) - 1
			}
			b.Data = append(b.Data[:0], b.Data[end+1:]...)
		}
		rest = rest[:0]
		if !over {
			end := bytes.LastIndexByte(b.Data, '\n')
			if end < 0 && len(b.Data) == cap(b.Data) { // one line is more than a block
				skipping, from = true, to-int64(len(b.Data))
				skipped++
				b.Data = b.Data[:0]
			} else {
				rest = append(rest, b.Data[end+1:]...)
				b.Data = b.Data[:end+1]
				to -= int64(len(rest))
			}
		}
		switch {
		case over && wholeLines && skipping: // it counts when its end is there
			b.Data, to = b.Data[:0], from
			skipped--
		case over && wholeLines:
			end := bytes.LastIndexByte(b.Data, '\n')
			to -= int64(len(b.Data) - end - 1)
			b.Data = b.Data[:end+1]
		}
		if len(b.Data) > 0 || over {
			b.Skipped, skipped = skipped, 0
			seq++
		}
		if err := f(b, to); err != nil || over {
			return errors.Join(err, broken)
		}
	}
}

// fill reads until p is full. An io.EOF is the end, and any other error is one: a file
// that is compressed and cut off ends in io.ErrUnexpectedEOF.
func fill(r io.Reader, p []byte) (n int, err error) {
	for n < len(p) {
		k, err := r.Read(p[n:])
		n += k
		if err != nil {
			return n, err
		}
	}
	return n, nil
}
