// Package source reads logs in blocks of lines: plain or compressed files, directories, a pipe,
// a growing log.
package source

import (
	"bytes"
	"errors"
	"io"
	"sync/atomic"
)

// Block holds whole lines of one log.
type Block struct {
	Log  int    // index into Set.Logs
	Seq  int    // number in its log, from 0
	Data []byte // each line ends with \n, except the last of a log
	// Skipped is the number of overlong lines directly before this block.
	Skipped int
	// Zeros reports whether lines may contain zero bytes.
	Zeros bool
}

// Size is the maximum size of a block, and of a line, in bytes.
const Size = 1 << 20

// usual is the size of a block unless a line is longer. It is small enough to stay in a core's
// second cache until the block is processed, without evicting the groups.
const usual = 256 << 10

// cutter divides its input into blocks.
type cutter struct {
	r          io.Reader
	log        int
	wholeLines bool          // omit text after the last line end
	to         int64         // offset of the last block's end
	done       *atomic.Int64 // counts the bytes read; set for a plain file

	// hold reports whether a line must be in the same block as the next one; nil: never.
	hold func(line []byte) bool

	seq      int
	rest     []byte // an incomplete line after the last block
	skipping bool   // inside a line longer than a block
	skipped  int    // number of overlong lines since the last block
	from     int64  // offset at which that line begins
	zeros    int64  // number of dropped zero bytes
}

// next reads the next block into b, which must have a capacity of Size. over reports whether
// it is the last block. With an error, b holds the part read before. Within an overlong line
// the block may be empty.
func (c *cutter) next(b *Block) (over bool, err error) {
	b.Log, b.Seq, b.Skipped, b.Zeros = c.log, c.seq, 0, len(c.rest) > 0 && bytes.IndexByte(c.rest, 0) >= 0
	b.Data = append(b.Data[:0], c.rest...)
	c.to += int64(len(c.rest))
	c.rest = c.rest[:0]
	broken := c.fill(b, usual)
	if broken == nil && bytes.LastIndexByte(b.Data, '\n') < 0 {
		broken = c.fill(b, Size)
	}
	over = broken != nil
	whole := c.wholeLines
	if errors.Is(broken, io.EOF) {
		broken = nil
	} else if broken != nil {
		whole = true // a truncated line may look like another request
	}
	if over && !whole { // the last line has no end
		data := bytes.TrimRight(b.Data, "\x00")
		c.zeros += int64(len(b.Data) - len(data))
		b.Data = data
	}
	if c.skipping {
		end := bytes.IndexByte(b.Data, '\n')
		c.skipping = end < 0
		if end < 0 {
			end = len(b.Data) - 1
		}
		b.Data = append(b.Data[:0], b.Data[end+1:]...)
	}
	switch end := bytes.LastIndexByte(b.Data, '\n'); {
	case over && !whole: // omit the last line: it may be incomplete
	case over && c.skipping: // the overlong line counts when its end is read
		b.Data, c.to = b.Data[:0], c.from
		c.skipped--
	case end < 0 && len(b.Data) == Size && !over: // a line longer than a block
		c.skipping, c.from = true, c.to-int64(len(b.Data))
		c.skipped++
		b.Data = b.Data[:0]
	default:
		end = c.held(b.Data, end)
		c.to -= int64(len(b.Data) - end - 1)
		c.rest = append(c.rest, b.Data[end+1:]...)
		b.Data = b.Data[:end+1]
	}
	if len(b.Data) > 0 || over {
		b.Skipped, c.skipped = c.skipped, 0
		c.seq++
	}
	return over, broken
}

// held returns where a block must end, because its final lines belong to the next block. end is the
// end of the block's last line. A block keeps at least one line.
func (c *cutter) held(data []byte, end int) int {
	if c.hold == nil {
		return end
	}
	for at := end; at >= 0; {
		begin := bytes.LastIndexByte(data[:at], '\n') + 1
		if !c.hold(data[begin:at]) {
			return at
		}
		at = begin - 1
	}
	return end
}

// fill reads until a block has n bytes. It returns io.EOF at the end of the log, and
// io.ErrUnexpectedEOF for a truncated compressed file.
func (c *cutter) fill(b *Block, n int) error {
	for len(b.Data) < n {
		had := len(b.Data)
		k, err := c.r.Read(b.Data[had:n])
		some := false
		b.Data, some = dropZeros(b.Data[:had+k], had, !c.wholeLines)
		b.Zeros = b.Zeros || some
		c.to += int64(k)
		if c.done != nil {
			c.done.Add(int64(k))
		}
		c.zeros += int64(had + k - len(b.Data))
		if err != nil {
			return err
		}
	}
	return nil
}
