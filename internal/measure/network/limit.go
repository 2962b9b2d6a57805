package network

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/unit"
)

// What bounds a throughput.
const (
	LimitCPU        = "cpu"            // a thread of one of the programs
	LimitInterrupts = "interrupts"     // a processor that serves all interrupts
	LimitWindow     = "receive window" // of the receiver
	LimitBuffer     = "send buffer"    // of the sender
	LimitLink       = "link"           // the speed of this machine's interface
	LimitShaper     = "shaper"         // a queue in front of a slower link or a shaper
	LimitPolicer    = "policer"        // packets above a rate are dropped
	LimitLoss       = "loss"           // packets are lost at any rate
	LimitUnknown    = "not determined"
)

// Limit is what bounds the throughput of a cell.
type Limit struct {
	Word string `json:"limit"`
	Text string `json:"reason"`
	// Where is the end that has the limit: here, peer, or "" for the path.
	Where string `json:"where,omitempty"`
	// Do is what would lift it; may be empty.
	Do string `json:"remedy,omitempty"`
}

// Thresholds of the verdicts. They are guesses of the authors, except the kernel's own counts of
// time for windows and buffers.
const (
	threadFull     = 0.9 // of a processor
	interruptsFull = 0.8 // of a processor
	limitedShare   = 0.5 // of the time in which there was something to send
	queueFactor    = 3.0 // round trip under load against the smallest
	queueLeastS    = 0.002
	lossShare      = 0.0005
	scaling        = 1.5 // N streams against one
)

// limits sets the limit of each cell with streams.
func (r *Result) limits(h *host.Host, cells []Cell) {
	speed := linkSpeed(h, r.Local.Interface)
	for i, c := range cells {
		if c.Kind != Send && c.Kind != Receive || i >= len(r.Cells) || r.Cells[i].Cell != c.Name() {
			continue
		}
		// The same direction with the fewest and the most streams.
		few, many := c.Streams, c.Streams
		scales := math.NaN()
		for k, o := range cells {
			if o.Kind != c.Kind || k >= len(r.Cells) {
				continue
			}
			few, many = min(few, o.Streams), max(many, o.Streams)
		}
		if few < many {
			scales = r.of(Cell{Kind: c.Kind, Streams: many}).value(goodput) / r.of(Cell{Kind: c.Kind, Streams: few}).value(goodput)
		}
		r.Cells[i].Limit = r.limit(&r.Cells[i], c, scales, speed)
	}
}

// limit finds what bounds the throughput of a cell. scales is the factor of more streams, or NaN,
// and speed that of this machine's device in bit/s, or 0.
func (r *Result) limit(s *Summary, c Cell, scales, speed float64) *Limit {
	v := s.value
	sender, receiver, at, other := r.Local, r.Remote, "here", "peer"
	ends := [2][3]string{{"here", cpuShareHere, softirqHere}, {"peer", cpuSharePeer, softirqPeer}}
	if c.Kind == Receive {
		sender, receiver, at, other = r.Remote, r.Local, "peer", "here"
	}
	bits := v(goodput)
	needed := bits / 8 * v(loadedRTT)
	switch {
	case v(rwndShare) > limitedShare && float64(receiver.RmemMax) > 4*needed:
		return &Limit{LimitCPU, fmt.Sprintf("the receiver's window was full %s of the time, although it may grow to %s: its program did not read in time", text.Percent(v(rwndShare)), size(receiver.RmemMax)), other, ""}
	case v(rwndShare) > limitedShare:
		return &Limit{LimitWindow, fmt.Sprintf("the receiver's window was full %s of the time: %s at a round trip of %s", text.Percent(v(rwndShare)), humanBytes(int64(needed)), unit.FormatSeconds(v(loadedRTT))), other,
			fmt.Sprintf("raise the last value of net.ipv4.tcp_rmem at the receiver (now %s) to more than twice the wanted rate times %s", size(receiver.RmemMax), unit.FormatSeconds(v(idleRTT)))}
	case v(sndbufShare) > limitedShare:
		return &Limit{LimitBuffer, fmt.Sprintf("the sender's buffer was full %s of the time: %s at a round trip of %s", text.Percent(v(sndbufShare)), humanBytes(int64(needed)), unit.FormatSeconds(v(loadedRTT))), at,
			fmt.Sprintf("raise the last value of net.ipv4.tcp_wmem at the sender (now %s) to more than twice the wanted rate times %s", size(sender.WmemMax), unit.FormatSeconds(v(idleRTT)))}
	}
	for _, end := range ends {
		if share := v(end[1]); share/float64(c.Streams) > threadFull {
			return &Limit{LimitCPU, fmt.Sprintf("the program used %s of a processor for a stream", text.Percent(share/float64(c.Streams))), end[0], "compare with more streams; more than one stream can use more processors"}
		}
	}
	for _, end := range ends {
		if share := v(end[2]); share > interruptsFull {
			do := ""
			if end[0] == "here" {
				do = "fettle irq show"
			}
			return &Limit{LimitInterrupts, fmt.Sprintf("one processor was %s of the time in interrupts", text.Percent(share)), end[0], do}
		}
	}
	if speed > 0 && bits > 0.85*speed {
		return &Limit{LimitLink, fmt.Sprintf("the link of %s has %s Mbit/s", r.Local.Interface, unit.Digits(speed/1e6)), "here", ""}
	}
	queue := v(loadedRTT) > queueFactor*v(idleRTT) && v(loadedRTT)-v(idleRTT) > queueLeastS
	lossy := v(retransmits) > lossShare
	if queue && !(lossy && scales > scaling) {
		return &Limit{LimitShaper, fmt.Sprintf("a queue builds up in front of %s Mbit/s: the round trip grows from %s to %s", unit.Digits(wire(bits, v(mssBytes))/1e6), unit.FormatSeconds(v(idleRTT)), unit.FormatSeconds(v(loadedRTT))), "", ""}
	}
	for _, end := range []struct {
		name, busy, own string
		cpus            int
	}{{"here", busyHere, cpuShareHere, r.Local.CPUs}, {"peer", busyPeer, cpuSharePeer, r.Remote.CPUs}} {
		if share := v(end.busy); share > threadFull && end.cpus > 0 {
			return &Limit{LimitCPU, fmt.Sprintf("all processors were busy %s of the time, %s by this measurement's program", text.Percent(share), text.Percent(v(end.own)/float64(end.cpus))), end.name, ""}
		}
	}
	switch {
	case lossy && scales > scaling:
		return &Limit{LimitLoss, fmt.Sprintf("%s of the segments were sent again, and more streams have %.1f times the throughput", text.Percent(v(retransmits)), scales), "", "look for errors of the interfaces and for overloaded links on the path"}
	case lossy && scales <= scaling:
		return &Limit{LimitPolicer, fmt.Sprintf("%s of the segments were sent again, without a queue, and more streams have no more throughput: packets above about %s Mbit/s are dropped", text.Percent(v(retransmits)), unit.Digits(wire(bits, v(mssBytes))/1e6)), "", ""}
	}
	if lossy {
		return &Limit{Word: LimitUnknown, Text: fmt.Sprintf("%s of the segments were sent again; one and several streams together (--cells %s-1,%[2]s-8) tell loss from a policer", text.Percent(v(retransmits)), c.Kind)}
	}
	return &Limit{Word: LimitUnknown, Text: "no limit of CPU, window, buffer, link, shaper or loss was seen"}
}

// of returns the summary of a cell, which is empty if it was not measured.
func (r *Result) of(c Cell) *Summary {
	for i := range r.Cells {
		if r.Cells[i].Cell == c.Name() {
			return &r.Cells[i]
		}
	}
	return &Summary{}
}

// wire returns the rate of Ethernet frames, without preamble and checksum, of a goodput: what tc
// and the rate limits of hypervisors count. A segment has 52 bytes of IP and TCP with timestamps
// and 14 of Ethernet; IPv6 has 20 more.
func wire(bits, mss float64) float64 {
	if !(mss > 0) {
		return bits
	}
	return bits * (mss + 66) / mss
}

// linkSpeed returns the speed of an interface in bit/s, or 0 if it has none.
func linkSpeed(h *host.Host, name string) float64 {
	if name == "" || strings.ContainsRune(name, '/') {
		return 0
	}
	mbit, err := strconv.ParseFloat(strings.TrimSpace(h.File("/sys/class/net/"+name+"/speed").Text), 64)
	if err != nil || mbit <= 0 || virtual(h, name) {
		return 0
	}
	return mbit * 1e6
}

// virtual reports whether the speed of an interface is made up, as that of veth and tun is.
func virtual(h *host.Host, name string) bool {
	_, err := h.Files.Stat("/sys/class/net/" + name + "/device")
	return err != nil
}

func size(n int64) string {
	if n <= 0 {
		return "unknown"
	}
	return humanBytes(n)
}

func humanBytes(n int64) string { return unit.Size(max(n, 0)).Human() }

// text sums up the result in one line.
func (r *Result) text() string {
	var said []string
	for i := range r.Cells {
		s := &r.Cells[i]
		if s.Limit != nil && !slices.ContainsFunc(said, func(t string) bool { return strings.HasPrefix(t, strings.Split(s.Cell, "-")[0]) }) {
			best := r.best(strings.Split(s.Cell, "-")[0])
			said = append(said, fmt.Sprintf("%s %s Mbit/s (limit: %s)", strings.Split(s.Cell, "-")[0], unit.Digits(best.value(goodput)/1e6), best.Limit.Word))
		}
	}
	if len(said) == 0 && len(r.Cells) > 0 {
		s := &r.Cells[0]
		cell, _ := ParseCell(s.Cell)
		d := Deciding(cell)
		said = append(said, fmt.Sprintf("%s %s %s", s.Cell, unit.Digits(s.value(d.name)*d.scale), d.Unit))
	}
	return strings.Join(said, "; ")
}

// best returns the cell of a direction with the highest throughput.
func (r *Result) best(direction string) *Summary {
	var best *Summary
	for i := range r.Cells {
		s := &r.Cells[i]
		if strings.HasPrefix(s.Cell, direction+"-") && (best == nil || s.value(goodput) > best.value(goodput)) {
			best = s
		}
	}
	return best
}
