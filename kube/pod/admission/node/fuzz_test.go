package node

import "testing"

func FuzzSettings(f *testing.F) {
	f.Add([]byte(staticConfig), uint64(8<<30))
	f.Add([]byte(`{"kubeletconfig":{"evictionHard":{"memory.available":"5.5%"},"reservedMemory":[{"numaNode":-1,"limits":{"memory":"-1"}}]}}`), uint64(1))
	f.Fuzz(func(t *testing.T, text []byte, memory uint64) {
		s, err := Settings(text, memory%(1<<50))
		if err == nil && s.EvictionHardMemoryBytes > 1<<63 {
			t.Errorf("%q: %d bytes are reserved for eviction", text, s.EvictionHardMemoryBytes)
		}
	})
}
