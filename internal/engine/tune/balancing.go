package tune

import "fettle.dev/fettle/internal/host"

// Balancing is the state of numa_balance, with which the daemon moves processes between NUMA nodes.
type Balancing struct {
	// Processes are those to move: ["all"], or words. Exclude are those that are left alone.
	Processes []string `json:"processes"`
	Exclude   []string `json:"exclude"`
	// Shortest and Longest are the times between two passes, in seconds.
	Shortest float64 `json:"shortest_interval_s"`
	Longest  float64 `json:"longest_interval_s"`
	// From is the line of tuned-main.conf that turns it on.
	From string `json:"from"`
	// Nodes is the number of NUMA nodes; with one there is nothing to do.
	Nodes int `json:"nodes"`
	// Daemon reports whether a daemon runs. Paused is true after stop and off (tuned-adm off).
	Daemon bool `json:"daemon"`
	Paused bool `json:"paused"`
}

// balancing returns the state of numa_balance, or nil if that is off.
func (e *Engine) balancing() *Balancing {
	n := e.Main.NumaBalance
	if !n.On() {
		return nil
	}
	nodes, _ := host.Glob(e.Host.Files, "/sys/devices/system/node/node[0-9]*")
	b := &Balancing{
		Processes: n.Processes, Exclude: append([]string{}, n.Exclude...), Shortest: n.Min.Seconds(), Longest: n.Max.Seconds(),
		From: e.Main.Where["numa_balance"].String(), Nodes: len(nodes), Daemon: Followed(e.StateDir),
	}
	if b.Daemon {
		b.Paused = fileNotice(e.StateDir, aliveFile).Paused
	}
	return b
}
