package network

import (
	"math"
	"slices"

	"fettle.dev/fettle/internal/stats"
)

// Summary is the result of a cell.
type Summary struct {
	Cell    string   `json:"cell"`
	Runs    int      `json:"runs"`
	Figures []Figure `json:"figures"`
	// Limit describes what limits the throughput; only for send and receive cells.
	Limit *Limit `json:"limit,omitempty"`
}

// Figure is one measured quantity.
type Figure struct {
	Name string `json:"name"` // with the unit at its end
	// Value is the median of the runs, or their mean for shares, which are counts.
	Value float64 `json:"value"`
	// Interval is a 95 % confidence interval of Value. It is absent with too few runs.
	Interval *[2]float64 `json:"interval,omitempty"`
}

// The quantities of the cells.
const (
	goodput            = "goodput_bit_s"
	cpuHere            = "cpu_here_s_per_gbit"
	cpuThere           = "cpu_peer_s_per_gbit"
	retransmits        = "retransmitted_share"
	loadedRTT          = "tcp_rtt_s"
	idleRTT            = "tcp_min_rtt_s"
	programShare       = "program_limited_share" // of the run, with the next three: what kept the sender from sending
	rwndShare          = "receive_window_limited_share"
	sndbufShare        = "send_buffer_limited_share"
	pathShare          = "path_limited_share"
	rcvbufBytes        = "receive_buffer_bytes"  // of the receiver, at the end
	cpuShareHere       = "cpu_here_share"        // of one processor, by this program
	cpuSharePeer       = "cpu_peer_share"        // the same at the peer
	interruptsHere     = "interrupts_here_share" // of the processor that has the most
	interruptsPeer     = "interrupts_peer_share"
	interruptsIdleHere = "interrupts_idle_here_share" // idle share of that processor
	interruptsIdlePeer = "interrupts_idle_peer_share"
	othersHere         = "other_programs_here_share" // of all processors
	othersPeer         = "other_programs_peer_share"
	stolenHere         = "stolen_here_share"
	stolenPeer         = "stolen_peer_share"
	droppedHere        = "backlog_dropped_here"
	droppedPeer        = "backlog_dropped_peer"
	busyHere           = "machine_here_share" // mean of all processors
	busyPeer           = "machine_peer_share"
	mssBytes           = "mss_bytes"
	cwndBytes          = "congestion_window_bytes"
	rate               = "rate_per_s"
	p50                = "p50_s"
	p99                = "p99_s"
	p999               = "p99_9_s"
	jitterUp           = "jitter_send_s"
	jitterDown         = "jitter_receive_s"
	lossUp             = "lost_send_share"
	lossDown           = "lost_receive_share"
	orderUp            = "reordered_send_share"
	orderDown          = "reordered_receive_share"
	addedP50           = "added_p50_s"
	addedP99           = "added_p99_s"
	idleP50            = "idle_p50_s"
	loadP50            = "loaded_p50_s"
	loadP99            = "loaded_p99_s"
	lateStarts         = "late_starts_share" // of paced requests and probes, by more than half of their interval and 100 us
	// Shares of the probes (here) and the replies (peer) that have the program's time at which they left,
	// not the kernel's.
	unstampedHere = "program_stamped_here_share"
	unstampedPeer = "program_stamped_peer_share"
)

// shares are ratios of counts. They are often 0 in most runs, so a summary uses the mean.
var shares = []string{retransmits, lossUp, lossDown, orderUp, orderDown, lateStarts, unstampedHere, unstampedPeer}

// Decision is the quantity by which a cell is compared.
type Decision struct {
	name  string
	scale float64 // from the quantity's unit to Unit
	Unit  string
	More  bool // higher is better
}

// Deciding returns the quantity by which a cell is compared.
func Deciding(c Cell) Decision {
	switch c.Kind {
	case Request, Probes:
		return Decision{p50, 1e3, "ms", false}
	case LoadUp, LoadDown:
		return Decision{addedP50, 1e3, "ms", false}
	}
	return Decision{goodput, 1e-6, "Mbit/s", true}
}

// quantities are all quantities in the order of a summary.
var quantities = []string{
	goodput, retransmits, loadedRTT, idleRTT, programShare, rwndShare, sndbufShare, pathShare, rcvbufBytes, cwndBytes, mssBytes, cpuHere, cpuThere, cpuShareHere, cpuSharePeer,
	interruptsHere, interruptsPeer, interruptsIdleHere, interruptsIdlePeer, busyHere, busyPeer, othersHere, othersPeer, stolenHere, stolenPeer, droppedHere, droppedPeer, rate, p50, p99, p999, jitterUp, jitterDown, lossUp, lossDown, orderUp, orderDown,
	addedP50, addedP99, idleP50, loadP50, loadP99, lateStarts, unstampedHere, unstampedPeer,
}

// figure sums up the values of the runs.
func figure(name string, values []float64) Figure {
	if slices.Contains(shares, name) {
		f := Figure{Name: name, Value: stats.Mean(values)}
		if n := float64(len(values)); n >= 3 {
			half := stats.StudentQuantile(0.975, n-1) * stats.SD(values) / math.Sqrt(n)
			f.Interval = &[2]float64{max(0, f.Value-half), f.Value + half}
		}
		return f
	}
	f := Figure{Name: name, Value: stats.Median(values)}
	if i := stats.MedianInterval(values, 0.05); !math.IsInf(i.High, 0) && !math.IsInf(i.Low, 0) {
		f.Interval = &[2]float64{i.Low, i.High}
	}
	return f
}

// Figure returns a quantity of the cell.
func (s *Summary) Figure(name string) (f Figure, ok bool) {
	i := slices.IndexFunc(s.Figures, func(f Figure) bool { return f.Name == name })
	if i < 0 {
		return f, false
	}
	return s.Figures[i], true
}

// mayBe reports whether the quantity may be v: its interval contains v, or it has no interval.
func (f *Figure) mayBe(v float64) bool {
	return f.Interval == nil || f.Interval[0] <= v && v <= f.Interval[1]
}

// value returns the value of a quantity, or NaN.
func (s *Summary) value(name string) float64 {
	if f, ok := s.Figure(name); ok {
		return f.Value
	}
	return math.NaN()
}
