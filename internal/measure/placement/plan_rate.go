package placement

import (
	"fmt"

	"golang.org/x/sys/unix"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/unit"
)

const (
	// guessedRate is used if the rate of moving pages cannot be measured.
	guessedRate = 1 << 30 // bytes/s
	probeBytes  = 32 << 20
	moveFlag    = 1 << 1 // MPOL_MF_MOVE of mbind(2)
)

// estimate measures how fast the kernel moves pages, and estimates the time of each move. If two
// nodes do not have enough free memory for that, it assumes guessedRate.
func (p *Plan) estimate(clock host.Clock, rooms []Room) {
	free := map[int]int{}
	for _, r := range rooms {
		free[r.Node] = r.FreeMB
	}
	p.BytesPerS, p.RateSource = guessedRate, "a guess: moving pages was not measured"
	for _, m := range p.Moves {
		from, _ := unit.ParseCPUList(m.From)
		to, _ := unit.ParseCPUList(m.Nodes)
		if from = from.Minus(to); from.IsEmpty() || to.IsEmpty() {
			continue
		}
		a, b := from.Numbers()[0], to.Numbers()[0]
		if min(free[a], free[b]) < 8*probeBytes>>20 {
			continue
		}
		rate, err := moveRate(clock, a, b)
		if err != nil {
			p.Notes = append(p.Notes, fmt.Sprintf("moving pages from node %d to %d could not be measured: %v", a, b, err))
		} else {
			p.BytesPerS, p.RateSource = rate, fmt.Sprintf("measured with %s of fettle's memory, node %d to %d", unit.Size(probeBytes).Human(), a, b)
		}
		break
	}
	for i := range p.Moves {
		p.Moves[i].Seconds = float64(p.Moves[i].MoveBytes) / p.BytesPerS
	}
}

// moveRate moves memory of this process between two nodes, and returns bytes per second.
func moveRate(clock host.Clock, from, to int) (float64, error) {
	memory, err := unix.Mmap(-1, 0, probeBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return 0, err
	}
	defer func() { _ = unix.Munmap(memory) }()
	_ = unix.Madvise(memory, unix.MADV_NOHUGEPAGE) // most memory that is moved is in small pages
	if err := host.BindMemory(memory, from, 0); err != nil {
		return 0, err
	}
	for i := 0; i < len(memory); i += 4096 {
		memory[i] = 1
	}
	start := clock.Now()
	if err := host.BindMemory(memory, to, moveFlag); err != nil {
		return 0, err
	}
	return probeBytes / clock.Now().Sub(start).Seconds(), nil
}
