package source

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"sync"
)

// Head is the beginning of a log, for those who want to know its format: up to n bytes,
// decompressed. Read begins with them again, also for the standard input.
func (s *Set) Head(i, n int) ([]byte, error) {
	if len(s.begun[i].head) >= n {
		return s.begun[i].head[:n], nil
	}
	r, err := s.reader(i)
	if err != nil {
		return nil, err
	}
	head := make([]byte, n)
	had := copy(head, s.begun[i].head)
	k, _ := io.ReadFull(r, head[had:]) // an error comes again when it is read whole
	s.begun[i].head = head[:had+k]
	return s.begun[i].head, nil
}

// Set is logs that are read together.
type Set struct {
	Logs []Log
	// WholeLines leaves what stands behind the last end of line for another time: it is
	// still being written.
	WholeLines bool

	begun []begun
	ends  []int64     // how far each was read, in bytes, decompressed
	heads []*Position // how each begins that was read through; of its Offset nothing
}

// begun is a log of which the beginning was read.
type begun struct {
	io.ReadCloser
	head []byte
}

// NewSet is for logs that Find found.
func NewSet(logs []Log) *Set {
	return &Set{Logs: logs, begun: make([]begun, len(logs)), ends: make([]int64, len(logs)), heads: make([]*Position, len(logs))}
}

func (s *Set) reader(i int) (io.Reader, error) {
	if s.begun[i].ReadCloser == nil {
		r, err := s.Logs[i].open()
		if err != nil {
			return nil, err
		}
		s.begun[i].ReadCloser = r
	}
	return s.begun[i], nil
}

// Read reads all logs and hands each block to one of so many workers: work(w, block) is
// never called twice at a time for the same w. Compressed logs are decompressed beside
// that, as many at a time as there are workers. A log that ends in an error is named by
// it; the blocks before it were handed on.
func (s *Set) Read(ctx context.Context, workers int, work func(w int, b *Block)) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	// A log that is followed is read again and again, a block at the most.
	free := make(chan *Block, 2*workers+2)
	for range cap(free) {
		free <- nil
	}
	get := func() *Block {
		if b := <-free; b != nil {
			return b
		}
		return blocks.Get().(*Block)
	}
	full := make(chan *Block, workers)
	next := make(chan int, len(s.Logs))
	for i := range s.Logs {
		next <- i
	}
	close(next)
	var readers, working sync.WaitGroup
	for range min(workers, len(s.Logs)) {
		readers.Go(func() {
			for i := range next {
				if err := s.read(ctx, i, get, full); err != nil {
					stop(err)
					return
				}
			}
		})
	}
	for w := range workers {
		working.Go(func() {
			for b := range full {
				work(w, b)
				free <- b
			}
		})
	}
	readers.Wait()
	close(full)
	working.Wait()
	for range len(free) {
		if b := <-free; b != nil {
			blocks.Put(b)
		}
	}
	return context.Cause(ctx)
}

// blocks are those that no Read has at work.
var blocks = sync.Pool{New: func() any { return &Block{Data: make([]byte, 0, Size)} }}

func (s *Set) read(ctx context.Context, i int, get func() *Block, full chan *Block) (err error) {
	l := s.Logs[i]
	s.ends[i] = l.skip
	r, err := s.rest(i)
	if err != nil {
		return err
	}
	file, _ := s.begun[i].ReadCloser.(*os.File)
	defer s.begun[i].Close()
	if file != nil && l.was != nil && !l.was.of(file) {
		s.heads[i] = l.was // rotated just now: the next reader finds it where it has gone to
		return nil
	}
	defer func() {
		if file != nil && err == nil {
			s.heads[i], err = headOf(file, min(s.ends[i], headMost))
		}
	}()
	err = cut(r, i, s.WholeLines, get, func(b *Block, to int64) error {
		s.ends[i] = s.Logs[i].skip + to
		select {
		case full <- b:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("%s: %w", s.Logs[i].Path, err)
	}
	return err
}

// rest is what is to be read of a log: from its beginning, which Head may have read, or
// from where an earlier reader was.
func (s *Set) rest(i int) (io.Reader, error) {
	if s.Logs[i].skip == 0 {
		r, err := s.reader(i)
		if err != nil {
			return nil, err
		}
		return io.MultiReader(bytes.NewReader(s.begun[i].head), r), nil
	}
	if s.begun[i].ReadCloser != nil {
		if err := s.begun[i].Close(); err != nil {
			return nil, err
		}
	}
	r, err := s.Logs[i].open()
	if err != nil {
		return nil, err
	}
	s.begun[i].ReadCloser = r
	if seeker, ok := r.(io.Seeker); ok {
		_, err = seeker.Seek(s.Logs[i].skip, io.SeekStart)
	} else {
		_, err = io.CopyN(io.Discard, r, s.Logs[i].skip)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Logs[i].Path, err)
	}
	return r, nil
}
