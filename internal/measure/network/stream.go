package network

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"fettle.dev/fettle/internal/host"
)

// streamJob describes a run of parallel TCP streams in one direction.
type streamJob struct {
	Down    bool          `json:"down"` // from the peer to the client
	Streams int           `json:"streams"`
	For     time.Duration `json:"for_ns"`
	Bytes   int64         `json:"bytes"` // limit of all streams together
}

// Limits of a job, which a peer enforces.
const (
	maxStreams = 128
	maxRun     = 10 * time.Minute
)

func (j streamJob) check() error {
	if j.Streams < 1 || j.Streams > maxStreams || j.For <= 0 || j.For > maxRun || j.Bytes <= 0 {
		return errors.New("the peer refuses this run: too many streams, or too long")
	}
	return nil
}

// streamReport is the report of one end about a run.
type streamReport struct {
	processors
	// Slots holds the received bytes in each interval of length slot since the start. Only from the
	// receiver.
	Slots []int64 `json:"slots_bytes,omitempty"`
	// Rcvbuf is the size in bytes of the largest receive buffer of a connection at the end of the
	// run. Only from the receiver.
	Rcvbuf int64 `json:"receive_buffer_bytes,omitempty"`
	// TCP holds the state of the connections at the end of the run. Only from the sender.
	TCP []tcpState `json:"tcp,omitempty"`
}

// slot is the resolution of the receiver's count.
const slot = 5 * time.Millisecond

// block is the size of a read or write, the same as iperf3's.
const block = 128 << 10

// transfer sends or receives on all connections from now until the job ends, and closes them.
func (j streamJob) transfer(ctx context.Context, h *host.Host, conns []*net.TCPConn, send bool) *streamReport {
	r := &streamReport{}
	worked := watchCPU(h)
	begin := time.Now()
	stop := context.AfterFunc(ctx, func() {
		for _, c := range conns {
			c.Close()
		}
	})
	defer stop()
	slots, states, buffers := make([][]int64, len(conns)), make([]*tcpState, len(conns)), make([]int64, len(conns))
	var wait sync.WaitGroup
	for i, c := range conns {
		wait.Go(func() {
			defer c.Close()
			if send {
				states[i] = j.send(c, begin, j.Bytes/int64(len(conns)))
			} else {
				slots[i] = j.receive(c, begin)
				buffers[i] = receiveBuffer(c)
			}
		})
	}
	wait.Wait()
	r.processors, r.Rcvbuf = worked(), slices.Max(buffers)
	for _, of := range slots {
		for i, n := range of {
			if i == len(r.Slots) {
				r.Slots = append(r.Slots, 0)
			}
			r.Slots[i] += n
		}
	}
	for _, s := range states {
		if s != nil {
			r.TCP = append(r.TCP, *s)
		}
	}
	return r
}

// send writes until the end or until the bytes are sent and received. What is still in a buffer
// at the end is dropped: a slow path would take long to deliver it.
func (j streamJob) send(c *net.TCPConn, begin time.Time, left int64) *tcpState {
	_ = c.SetDeadline(begin.Add(j.For))
	buffer := make([]byte, block)
	for left > 0 {
		n, err := c.Write(buffer[:min(left, block)])
		if left -= int64(n); err != nil {
			break
		}
	}
	if left <= 0 && c.CloseWrite() == nil {
		_, _ = c.Read(buffer[:1]) // until the receiver closes
	}
	s, err := tcpInfo(c, time.Since(begin))
	_ = c.SetLinger(0)
	if err != nil {
		return nil
	}
	return &s
}

// receive counts the bytes until the connection ends, or a little after the run.
func (j streamJob) receive(c *net.TCPConn, begin time.Time) []int64 {
	_ = c.SetDeadline(begin.Add(j.For + 2*time.Second))
	slots := make([]int64, 0, j.For/slot+1)
	buffer := make([]byte, block)
	for {
		n, err := c.Read(buffer)
		at := int(time.Since(begin) / slot)
		if n > 0 && at <= int((j.For+2*time.Second)/slot) {
			for len(slots) <= at {
				slots = append(slots, 0)
			}
			slots[at] += int64(n)
		}
		if err != nil {
			return slots
		}
	}
}

// goodput returns the rate of the received bytes in bytes a second, without the warm-up: the
// time warm, or the first quarter of the bytes if the run ended earlier by its bytes. It returns
// 0 if too little was received.
func (r *streamReport) goodput(run, warm time.Duration) float64 {
	slots := r.Slots[:min(len(r.Slots), int(run/slot))]
	for len(slots) > 0 && slots[len(slots)-1] == 0 {
		slots = slots[:len(slots)-1]
	}
	if len(slots) < 3 {
		return 0
	}
	slots = slots[:len(slots)-1] // the last one is not full
	var all, before int64
	for _, n := range slots {
		all += n
	}
	first := 0
	for first < len(slots)-1 && first < int(warm/slot) && before < all/4 {
		before += slots[first]
		first++
	}
	return float64(all-before) / (float64(len(slots)-first) * slot.Seconds())
}

// sample returns the values of a run of streams between two ends.
func (s *streamRun) sample(run, warm time.Duration, local, remote End) (sample, error) {
	bytes := s.receiver.goodput(run, warm)
	if bytes <= 0 {
		return nil, errNothing
	}
	all := 0.0
	for _, n := range s.receiver.Slots {
		all += float64(n)
	}
	v := sample{
		goodput: 8 * bytes, cpuHere: s.here.CPU / (8 * all / 1e9), cpuThere: s.there.CPU / (8 * all / 1e9),
		cpuShareHere: s.here.CPU / s.here.Wall, cpuSharePeer: s.there.CPU / s.there.Wall,
		interruptsHere: s.here.Interrupts, interruptsPeer: s.there.Interrupts, interruptsIdleHere: s.here.InterruptsIdle, interruptsIdlePeer: s.there.InterruptsIdle,
		busyHere: s.here.All, busyPeer: s.there.All, stolenHere: s.here.Stolen, stolenPeer: s.there.Stolen,
		rcvbufBytes: float64(s.receiver.Rcvbuf), droppedHere: float64(s.here.BacklogDropped), droppedPeer: float64(s.there.BacklogDropped),
	}
	ofPeer, ofHere := 0.0, 0.0 // CPU time that is not another program's
	if local.Boot == remote.Boot {
		ofPeer, ofHere = s.there.CPU, s.here.CPU
	}
	v[othersHere], v[othersPeer] = s.here.others(local.CPUs, ofPeer), s.there.others(remote.CPUs, ofHere)
	var again, segments float64
	for _, t := range s.sender.TCP {
		again, segments = again+float64(t.Retransmits), segments+float64(t.Segments)
		n := float64(len(s.sender.TCP))
		v[loadedRTT] += t.RTTS / n
		v[programShare] += t.Program / n
		v[rwndShare] += t.Rwnd / n
		v[sndbufShare] += t.Sndbuf / n
		v[pathShare] += t.Path / n
		v[cwndBytes] += float64(t.Window)
		v[mssBytes] = float64(t.MSS)
		if first := v[idleRTT] == 0; first || t.MinRTTS < v[idleRTT] {
			v[idleRTT] = t.MinRTTS
		}
	}
	if segments > 0 {
		v[retransmits] = again / segments
	}
	return v, nil
}

// echoRequests answers each request of size bytes with as many, until the connection ends.
func echoRequests(c net.Conn, size int) {
	buffer := make([]byte, size)
	for {
		if _, err := io.ReadFull(c, buffer); err != nil {
			return
		}
		if _, err := c.Write(buffer); err != nil {
			return
		}
	}
}
