package activity

import "testing"

func TestListenQueues(t *testing.T) {
	const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:0000001F 00:00000000 00000000  1000        0 4711 1 0000000000000000 100 0 0 10 0
   1: 0100007F:1F90 0100007F:C350 01 00000000:00000005 00:00000000 00000000  1000        0 4712 1 0000000000000000 20 4 30 10 -1
`
	queues := map[string]int{}
	each := func(port uint16, inode string, waiting int) {
		if port == 8080 {
			queues[inode] += waiting
		}
	}
	if err := ListenQueues(table, each); err != nil || len(queues) != 1 || queues["4711"] != 31 {
		t.Errorf("%v %v", queues, err)
	}
	if err := ListenQueues("0: 0100007F:1F90 00000000:0000 0A 00000000:xyz 0 0 0 0 4711", each); err == nil {
		t.Error("an invalid table is accepted")
	}
}
