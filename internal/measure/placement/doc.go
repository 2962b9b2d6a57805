// Package placement shows where the memory, CPUs and devices of a machine with several NUMA nodes
// are used, and where they would fit better: fettle numa show, advise and run, and numastat's
// tables. In: the facts and tables of the nodes (package fact), and the files of processes below
// /proc. Out: documents, grids and text.
package placement
