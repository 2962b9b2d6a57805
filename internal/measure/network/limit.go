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

// Causes that limit the throughput.
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

// Limit describes what limits the throughput of a cell.
type Limit struct {
	Word string `json:"limit"`
	Text string `json:"reason"`
	// Where is the location of the limit: here, peer, or "" for the path.
	Where string `json:"where,omitempty"`
	// Do is advice on how to raise the limit, or "".
	Do string `json:"remedy,omitempty"`
}

// Thresholds of the verdicts: choices of the authors. Windows, buffers and the sender's program
// need none, because the kernel counts for which of them the sender waited most.
const (
	threadFull     = 0.9  // of a processor
	interruptsMost = 0.5  // of a processor that
	interruptsIdle = 0.05 // was at most so idle
	queueFactor    = 3.0  // round trip under load against the smallest
	queueLeastS    = 0.002
	linkFull       = 0.85 // of the speed of the device
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

// limit finds the limit of a cell's throughput. scales is the factor gained with more streams, or
// NaN. speed is the speed of this machine's device in bit/s, or 0.
func (r *Result) limit(s *Summary, c Cell, scales, speed float64) *Limit {
	f := finder{Summary: s, cell: c, scales: scales, speed: speed, device: r.Local.Interface, ends: [2]limitEnd{
		{r.Local, "here", cpuShareHere, interruptsHere, interruptsIdleHere, busyHere, droppedHere},
		{r.Remote, "peer", cpuSharePeer, interruptsPeer, interruptsIdlePeer, busyPeer, droppedPeer},
	}}
	f.sender, f.receiver = &f.ends[0], &f.ends[1]
	if c.Kind == Receive {
		f.sender, f.receiver = f.receiver, f.sender
	}
	for _, find := range []func() *Limit{f.threads, f.interrupts, f.waits, f.link, f.queue, f.loss, f.processors} {
		if l := find(); l != nil {
			return l
		}
	}
	return &Limit{Word: LimitUnknown, Text: "no limit of CPU, window, buffer, link, shaper or loss was seen"}
}

// finder looks for the limit of a cell. Each method tests one cause, and returns nil if it is not
// the limit.
type finder struct {
	*Summary
	cell             Cell
	scales, speed    float64
	device           string
	ends             [2]limitEnd
	sender, receiver *limitEnd
}

// limitEnd is an end of the path with the names of its quantities.
type limitEnd struct {
	End
	name                                       string
	cpu, interrupts, interruptsIdle, all, lost string
}

func (f *finder) share(name string) string { return text.Percent(f.value(name)) }

func (f *finder) seconds(name string) string { return unit.FormatSeconds(f.value(name)) }

// threads: a stream's program used a whole processor.
func (f *finder) threads() *Limit {
	for _, end := range f.ends {
		if share := f.value(end.cpu) / float64(f.cell.Streams); share > threadFull {
			return &Limit{LimitCPU, fmt.Sprintf("the program used %s of a processor for a stream", text.Percent(share)), end.name, "compare with more streams; more than one stream can use more processors"}
		}
	}
	return nil
}

// waits: the sender waited mostly for something other than the path, by the kernel's count.
func (f *finder) waits() *Limit {
	most := pathShare
	for _, name := range []string{programShare, rwndShare, sndbufShare} {
		if f.value(name) > f.value(most) {
			most = name
		}
	}
	inFlight := humanBytes(int64(f.value(goodput) / 8 * f.value(loadedRTT)))
	raise := func(end, value string, now int64) string {
		return fmt.Sprintf("raise the last value of net.ipv4.%s at the %s (now %s) to more than twice the wanted rate times %s", value, end, size(now), f.seconds(idleRTT))
	}
	switch buffer := f.value(rcvbufBytes); {
	case most == rwndShare && buffer < float64(f.receiver.RmemMax):
		return &Limit{LimitCPU, fmt.Sprintf("the receiver's window was full %s of the time, although its buffer of %s may grow to %s: its program did not read in time", f.share(rwndShare), size(int64(buffer)), size(f.receiver.RmemMax)), f.receiver.name, ""}
	case most == rwndShare:
		return &Limit{LimitWindow, fmt.Sprintf("the receiver's window was full %s of the time: %s at a round trip of %s", f.share(rwndShare), inFlight, f.seconds(loadedRTT)), f.receiver.name, raise("receiver", "tcp_rmem", f.receiver.RmemMax)}
	case most == sndbufShare:
		return &Limit{LimitBuffer, fmt.Sprintf("the sender's buffer was full %s of the time: %s at a round trip of %s", f.share(sndbufShare), inFlight, f.seconds(loadedRTT)), f.sender.name, raise("sender", "tcp_wmem", f.sender.WmemMax)}
	case most == programShare:
		return &Limit{LimitCPU, fmt.Sprintf("the sender's program had written nothing to send %s of the time", f.share(programShare)), f.sender.name, ""}
	}
	return nil
}

// interrupts: a processor that is never idle serves interrupts most of the time, or has dropped
// packets.
func (f *finder) interrupts() *Limit {
	for _, end := range f.ends {
		do := ""
		if end.name == "here" {
			do = "fettle irq show"
		}
		if f.value(end.interrupts) > interruptsMost && f.value(end.interruptsIdle) <= interruptsIdle {
			return &Limit{LimitInterrupts, fmt.Sprintf("one processor was %s of the time in interrupts, and %s idle", f.share(end.interrupts), f.share(end.interruptsIdle)), end.name, do}
		}
		if n := f.value(end.lost); n > 0 && f.lossy() {
			return &Limit{LimitInterrupts, fmt.Sprintf("the queue of a processor was full and dropped %s packets a run", unit.Digits(n)), end.name, "spread the interrupts, or raise net.core.netdev_max_backlog"}
		}
	}
	return nil
}

func (f *finder) lossy() bool { return f.value(retransmits) > lossShare }

// link: the device of this machine is as fast as it can be.
func (f *finder) link() *Limit {
	if f.speed > 0 && f.value(goodput) > linkFull*f.speed {
		return &Limit{LimitLink, fmt.Sprintf("the link of %s has %s Mbit/s", f.device, unit.Digits(f.speed/1e6)), "here", ""}
	}
	return nil
}

// frames is the rate that a shaper or policer counts, in Mbit/s.
func (f *finder) frames() string { return mbit(wire(f.value(goodput), f.value(mssBytes))) }

// queue: packets wait in front of something slower.
func (f *finder) queue() *Limit {
	queue := f.value(loadedRTT) > queueFactor*f.value(idleRTT) && f.value(loadedRTT)-f.value(idleRTT) > queueLeastS
	if !queue || f.lossy() && f.scales > scaling {
		return nil
	}
	return &Limit{LimitShaper, fmt.Sprintf("a queue builds up in front of %s Mbit/s: the round trip grows from %s to %s", f.frames(), f.seconds(idleRTT), f.seconds(loadedRTT)), "", ""}
}

// loss: packets are lost, at any rate or above one.
func (f *finder) loss() *Limit {
	switch again := f.share(retransmits); {
	case !f.lossy():
		return nil
	case f.scales > scaling:
		return &Limit{LimitLoss, fmt.Sprintf("%s of the segments were sent again, and more streams have %.1f times the throughput", again, f.scales), "", "look for errors of the interfaces and for overloaded links on the path"}
	case f.scales <= scaling:
		return &Limit{LimitPolicer, fmt.Sprintf("%s of the segments were sent again, no queue was measured, and more streams do not add throughput: packets that exceed about %s Mbit/s are dropped", again, f.frames()), "", ""}
	default:
		return &Limit{Word: LimitUnknown, Text: fmt.Sprintf("%s of the segments were sent again; one and several streams together (--cells %s-1,%[2]s-8) distinguish loss from a policer", again, f.cell.Kind)}
	}
}

// processors: all of them were busy.
func (f *finder) processors() *Limit {
	for _, end := range f.ends {
		if f.value(end.all) > threadFull && end.CPUs > 0 {
			return &Limit{LimitCPU, fmt.Sprintf("all processors were busy %s of the time, %s by this measurement's program", f.share(end.all), text.Percent(f.value(end.cpu)/float64(end.CPUs))), end.name, ""}
		}
	}
	return nil
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

// virtual reports whether the reported speed of an interface is fictitious, as for veth and tun.
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
