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
	// Zeros says that a line may have a zero byte.
	Zeros bool
}

// Size is the most that a block has, and so a line, in bytes.
const Size = 1 << 20

// usual is how many bytes a block has unless a line is longer: what is read is still in the
// core's second cache when it is worked on, and has not driven out the groups that are there.
const usual = 256 << 10

// cutter cuts what it reads into blocks.
type cutter struct {
	r          io.Reader
	log        int
	wholeLines bool  // what stands behind the last end of line is left out
	to         int64 // how far r was read, to the end of the last block

	// hold says that a line belongs to the one behind it, and waits for it; nil: none does.
	hold func(line []byte) bool

	seq      int
	rest     []byte // the beginning of a line, behind the last block
	skipping bool   // of a line that is longer than a block: what comes next is of it
	skipped  int    // such lines since the last block
	from     int64  // where that line begins
	zeros    int64  // bytes that were dropped
}

// next reads the next block into b, which has room for Size. over says that it is the last;
// what was there before an error counts. Of a line that is longer than a block it may be
// empty.
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
		whole = true // half a line may look like a whole one of another request
	}
	if over && !whole { // of the last line, which has no end
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
	case over && !whole: // the last line may be without its end
	case over && c.skipping: // it counts when its end is there
		b.Data, c.to = b.Data[:0], c.from
		c.skipped--
	case end < 0 && len(b.Data) == Size && !over: // one line is more than a block
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

// held is where a block ends whose last line ends at a place, without the lines that wait for
// the one behind them; a block has at least one line.
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

// fill reads until a block has n bytes. An io.EOF is the end, and any other error is one:
// a file that is compressed and cut off ends in io.ErrUnexpectedEOF.
func (c *cutter) fill(b *Block, n int) error {
	for len(b.Data) < n {
		had := len(b.Data)
		k, err := c.r.Read(b.Data[had:n])
		some := false
		b.Data, some = dropZeros(b.Data[:had+k], had, !c.wholeLines)
		b.Zeros = b.Zeros || some
		c.to += int64(k)
		c.zeros += int64(had + k - len(b.Data))
		if err != nil {
			return err
		}
	}
	return nil
}
