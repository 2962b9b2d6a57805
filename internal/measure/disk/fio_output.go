package disk

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"fettle.dev/fettle/internal/text"
)

// Latency summarizes the latency of requests, in seconds.
type Latency struct {
	N    int64   `json:"n"`
	Mean float64 `json:"mean_s"`
	P50  float64 `json:"p50_s"`
	P99  float64 `json:"p99_s"`
	P999 float64 `json:"p99_9_s"`
}

// Side holds the figures of a job's reads, or of its writes.
type Side struct {
	Bytes    int64   `json:"bytes"`
	IOs      int64   `json:"ios"`
	BytesPS  float64 `json:"bytes_per_s"`
	IOPS     float64 `json:"ios_per_s"`
	RuntimeS float64 `json:"duration_s"`
	// Latency is the time from the request to its completion. The mean includes the submission to
	// the kernel; the percentiles do not.
	Latency Latency `json:"latency"`
}

// Figures are fio's figures since the start of the job.
type Figures struct {
	Version     string
	Read, Write Side
	Sync        Latency // of fdatasync
	// UserCPU and SystemCPU are fio's own CPU time as a ratio of one CPU.
	UserCPU, SystemCPU float64
}

// document is the used part of fio's JSON (output format json, version 3 and later).
type document struct {
	Version string `json:"fio version"`
	Jobs    []struct {
		Error     int     `json:"error"`
		Read      side    `json:"read"`
		Write     side    `json:"write"`
		Sync      lat     `json:"sync"`
		UserCPU   float64 `json:"usr_cpu"` // percent
		SystemCPU float64 `json:"sys_cpu"`
	} `json:"jobs"`
}

type side struct {
	Bytes     int64   `json:"io_bytes"`
	BytesPS   float64 `json:"bw_bytes"`
	IOPS      float64 `json:"iops"`
	RuntimeMS float64 `json:"runtime"`
	Total     int64   `json:"total_ios"`
	Lat       nanos   `json:"lat_ns"`
	Clat      nanos   `json:"clat_ns"`
}

// lat is the member sync. Its total_ios is always 0 in fio 3.33; lat_ns.N is the count.
type lat struct {
	Lat nanos `json:"lat_ns"`
}

type nanos struct {
	N          int64              `json:"N"`
	Mean       float64            `json:"mean"`
	Percentile map[string]float64 `json:"percentile"`
}

func (n nanos) latency() Latency {
	const ns = 1e-9
	return Latency{n.N, n.Mean * ns, n.Percentile["50.000000"] * ns, n.Percentile["99.000000"] * ns, n.Percentile["99.900000"] * ns}
}

func (s side) figures() Side {
	out := Side{s.Bytes, s.Total, s.BytesPS, s.IOPS, s.RuntimeMS / 1000, s.Clat.latency()}
	if s.Lat.N > 0 {
		out.Latency.N, out.Latency.Mean = s.Lat.N, s.Lat.Mean*1e-9
	}
	return out
}

// largest is the maximum size of a document in bytes. fio's documents have ten to twenty thousand.
const largest = 4 << 20

// source is a reader that can unread text.
type source struct {
	rest []byte
	from io.Reader
}

func (s *source) Read(b []byte) (int, error) {
	if len(s.rest) == 0 {
		return s.from.Read(b)
	}
	n := copy(b, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

func (s *source) putBack(b []byte) { s.rest = append(bytes.Clone(b), s.rest...) }

// Read reads fio's output: notes, and consecutive documents. It calls each with the figures of
// every document, which cover the time since the start.
func Read(from io.Reader, each func(Figures)) error {
	for s := (&source{from: from}); ; {
		if err := s.skipNotes(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		limited := &io.LimitedReader{R: s, N: largest}
		d := json.NewDecoder(limited)
		var doc document
		if err := d.Decode(&doc); err != nil {
			if limited.N == 0 {
				err = text.Errorf("output larger than %d MiB", largest>>20)
			}
			return fmt.Errorf("invalid output of fio: %w", err)
		}
		over, err := io.ReadAll(d.Buffered())
		if err != nil {
			return err
		}
		s.putBack(over)
		f, err := doc.figures()
		if err != nil {
			return err
		}
		each(f)
	}
}

// skipNotes skips to the line that begins a document.
func (s *source) skipNotes() error {
	in := bufio.NewReader(s)
	defer func() {
		over, _ := in.Peek(in.Buffered())
		s.putBack(over)
	}()
	for begins := true; ; {
		c, err := in.ReadByte()
		switch {
		case err != nil:
			return err
		case begins && c == '{':
			return in.UnreadByte()
		}
		begins = c == '\n' || begins && (c == ' ' || c == '\t' || c == '\r')
	}
}

func (d document) figures() (Figures, error) {
	if len(d.Jobs) != 1 {
		return Figures{}, fmt.Errorf("invalid output of fio: %s, want one", text.Count(len(d.Jobs), "job"))
	}
	j := d.Jobs[0]
	if j.Error != 0 {
		return Figures{}, fmt.Errorf("fio reports error %d", j.Error)
	}
	f := Figures{d.Version, j.Read.figures(), j.Write.figures(), j.Sync.Lat.latency(), j.UserCPU / 100, j.SystemCPU / 100}
	for _, s := range []Side{f.Read, f.Write} {
		for _, v := range []float64{float64(s.Bytes), float64(s.IOs), s.BytesPS, s.IOPS, s.RuntimeS, s.Latency.Mean, s.Latency.P50, s.Latency.P99, s.Latency.P999, float64(s.Latency.N)} {
			if v < 0 || math.IsInf(v, 0) || math.IsNaN(v) {
				return Figures{}, fmt.Errorf("invalid output of fio: figure %v", v)
			}
		}
	}
	if s := f.Sync; s.N < 0 || s.Mean < 0 || s.P50 < 0 || s.P99 < 0 || s.P999 < 0 {
		return Figures{}, errors.New("invalid output of fio: a negative time")
	}
	return f, nil
}
