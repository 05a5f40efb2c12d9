package perftest

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// A Setting describes how a test was made, for the reports.
type Setting struct {
	Test
	Device    string
	SendDepth int // requests in flight; 0 at a server
	RecvDepth int // receives posted; 0 if there are none
	Reads     int // RDMA READs and atomics in flight; 0 if there are none
	Local     Destination
	Remote    Destination
}

const line = "---------------------------------------------------------------------------------------\n"

// Head prints what perftest prints before the transfer. It omits the lines about the device that are not known.
func (s Setting) Head(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s                    %s\n", line, s.name())
	fmt.Fprintf(&b, " Dual-port       : OFF\t\tDevice         : %s\n", s.Device)
	fmt.Fprintf(&b, " Number of qps   : 1\n Connection type : RC\t\tUsing SRQ      : OFF\n")
	for _, n := range []struct {
		name  string
		value int
	}{{"TX depth        ", s.SendDepth}, {"RX depth        ", s.RecvDepth}, {"Outstand reads  ", s.Reads}} {
		if n.value > 0 {
			fmt.Fprintf(&b, " %s: %d\n", n.name, n.value)
		}
	}
	fmt.Fprintf(&b, " Link type       : Ethernet\n rdma_cm QPs\t : ON\n Data ex. method : rdma_cm\n%s", line)
	for _, end := range []struct {
		name string
		Destination
	}{{"local", s.Local}, {"remote", s.Remote}} {
		fmt.Fprintf(&b, " %s address: QPN 0x%04x", end.name, uint32(end.QPN))
		if s.Verb == Read {
			fmt.Fprintf(&b, " OUT %#04x", end.Reads)
		}
		if s.Verb == Read || s.Verb == Write {
			fmt.Fprintf(&b, " RKey %#08x VAddr %#016x", uint32(end.RKey), end.VAddr)
		}
		fmt.Fprintf(&b, "\n GID: %s\n", gid(end.Destination))
	}
	b.WriteString(line)
	_, err := io.WriteString(w, b.String())
	return err
}

// gid formats an address as a GID like perftest: 16 decimal numbers.
func gid(d Destination) string {
	var parts []string
	for _, v := range d.Addr.As16() {
		parts = append(parts, fmt.Sprintf("%02d", v))
	}
	return strings.Join(parts, ":")
}

// WriteText writes perftest's table of a bandwidth.
func (b Bandwidth) WriteText(w io.Writer) error {
	_, err := fmt.Fprintf(w, " #bytes     #iterations    BW peak[MiB/sec]    BW average[MiB/sec]   MsgRate[Mpps]\n"+
		" %-7d    %-10d       %-7.2f            %-7.2f\t\t     %-7.6f\n%s",
		b.Size, b.Iterations, b.Peak, b.Average, b.Rate, line)
	return err
}

// WriteText writes perftest's table of a latency.
func (l Latency) WriteText(w io.Writer) error {
	_, err := fmt.Fprintf(w, " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99%% percentile[usec]   99.9%% percentile[usec] \n"+
		" %-7d %d          %-7.2f        %-7.2f      %-7.2f  \t       %-7.2f     \t%-7.2f\t\t%-7.2f \t\t%-7.2f\n%s",
		l.Size, l.Iterations, usec(l.Min), usec(l.Max), usec(l.Typical), usec(l.Average), usec(l.Deviation), usec(l.P99), usec(l.P999), line)
	return err
}

func usec(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// settingJSON, bandwidthJSON and latencyJSON have the names of perftest's --out_json.
type settingJSON struct {
	Test           string `json:"test"`
	DualPort       string `json:"Dual_port"`
	Device         string `json:"Device"`
	NumberOfQPs    int    `json:"Number_of_qps"`
	ConnectionType string `json:"Connection_type"`
	UsingSRQ       string `json:"Using_SRQ"`
	SendDepth      int    `json:"TX_depth,omitempty"`
	RecvDepth      int    `json:"RX_depth,omitempty"`
	Reads          int    `json:"Outstand_reads,omitempty"`
	LinkType       string `json:"Link_type"`
	RDMACM         string `json:"rdma_cm_QPs"`
	Exchange       string `json:"Data_ex_method"`
}

type bandwidthJSON struct {
	Size       int     `json:"MsgSize"`
	Iterations int     `json:"n_iterations"`
	Peak       float64 `json:"BW_peak"`
	Average    float64 `json:"BW_average"`
	Rate       float64 `json:"MsgRate"`
}

type latencyJSON struct {
	Size       int     `json:"MsgSize"`
	Iterations int     `json:"n_iterations"`
	Min        float64 `json:"t_min"`
	Max        float64 `json:"t_max"`
	Typical    float64 `json:"t_typical"`
	Average    float64 `json:"t_avg"`
	Deviation  float64 `json:"t_stdev"`
	P99        float64 `json:"percentile_99"`
	P999       float64 `json:"percentile_99.9"`
}

// WriteJSON writes the output of perftest's --out_json.
func (b Bandwidth) WriteJSON(w io.Writer, s Setting) error {
	return writeJSON(w, s, bandwidthJSON(b))
}

// WriteJSON writes the output of perftest's --out_json, with times in microseconds.
func (l Latency) WriteJSON(w io.Writer, s Setting) error {
	return writeJSON(w, s, latencyJSON{l.Size, l.Iterations, usec(l.Min), usec(l.Max), usec(l.Typical),
		usec(l.Average), usec(l.Deviation), usec(l.P99), usec(l.P999)})
}

func writeJSON(w io.Writer, s Setting, results any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(struct {
		Info    settingJSON `json:"test_info"`
		Results any         `json:"results"`
	}{settingJSON{
		Test: strings.ReplaceAll(s.name(), " ", "_"), DualPort: "OFF", Device: s.Device, NumberOfQPs: 1, ConnectionType: "RC", UsingSRQ: "OFF",
		SendDepth: s.SendDepth, RecvDepth: s.RecvDepth, Reads: s.Reads, LinkType: "Ethernet", RDMACM: "ON", Exchange: "rdma_cm",
	}, results})
}
