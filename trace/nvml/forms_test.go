package nvml

// The forms that are read, as the programs write them, each with what is in it: by device the series, with
// samples, least, most and last value in MiB or percent.
var forms = []struct {
	name, text, want string
}{
	{"query", `timestamp, index, name, memory.used [MiB], memory.free [MiB], memory.total [MiB], utilization.gpu [%]
2026/11/29 15:52:15.829, 0, NVIDIA A, 0 MiB, 900 MiB, 1000 MiB, 0 %
2026/11/29 15:52:15.831, 1, NVIDIA B, 10 MiB, 890 MiB, 1000 MiB, [N/A]
2026/11/29 15:52:16.333, 0, NVIDIA A, 400 MiB, 500 MiB, 1000 MiB, 35 %
2026/11/29 15:52:16.335, 1, NVIDIA B, [Unknown Error], 890 MiB, 1000 MiB, 3 %
timestamp, index, name, memory.used [MiB], memory.free [MiB], memory.total [MiB], utilization.gpu [%]
2026/11/29 15:53:16.333, 0, NVIDIA A, 100 MiB, 800 MiB, 1000 MiB, 1 %
`, `local; 0 NVIDIA A 1000: device_used 3 0..400 100, device_free 3 500..900 800, device_total 3 1000..1000 1000, busy 3 0..35 1
1 NVIDIA B 1000: device_used 1 10..10 10, device_free 2 890..890 890, device_total 2 1000..1000 1000, busy 1 3..3 3`},

	{"query without units", `uuid, memory.used [MiB], timestamp
GPU-1111, 400, 2026/11/29 15:52:16.333
GPU-2222, 7, 2026/11/29 15:52:16.335
GPU-1111, 500, 2026/11/29 15:52:17.333
`, `local; 0  0: device_used 2 400..500 500
1  0: device_used 1 7..7 7`},

	{"query without a header", `2026/11/29 15:52:16.333, 1, 300 MiB, 700 MiB, 1000 MiB
2026/11/29 15:52:16.334, 3, 20 MiB, 980 MiB, 1000 MiB
2026/11/29 15:52:17.333, 1, 600 MiB, 400 MiB, 1000 MiB
2026/11/29 15:52:17.334, 3, 20 MiB, 980 MiB, 1000 MiB
`, `local; 1  1000: device_used 2 300..600 600, device_free 2 400..700 400, device_total 2 1000..1000 1000
3  1000: device_used 2 20..20 20, device_free 2 980..980 980, device_total 2 1000..1000 1000
no-header`},

	{"query without a header and units", `2026/11/29 15:52:16.333, 300, 80000
2026/11/29 15:52:17.334, 20, 80000
`, `local; 0  80000: device_used 2 20..300 20, device_total 2 80000..80000 80000
no-header`},

	{"one field without a header", "5 MiB\n7 MiB\n6 MiB\n", `none; 0  0: device_used 3 5..7 6
no-header`},

	{"devices by position", `timestamp, name, memory.used [MiB]
2023/08/29 10:00:00.977, NVIDIA X, 10 MiB
2023/08/29 10:00:00.981, NVIDIA X, 20 MiB
2023/08/29 10:00:00.986, NVIDIA X, 30 MiB
2023/08/29 10:00:01.977, NVIDIA X, 11 MiB
2023/08/29 10:00:01.981, NVIDIA X, 20 MiB
2023/08/29 10:00:01.986, NVIDIA X, 30 MiB
2023/08/29 10:00:02.978, NVIDIA X, 12 MiB
2023/08/29 10:00:02.981, NVIDIA X, 20 MiB
2023/08/29 10:00:02.986, NVIDIA X, 33 MiB
`, `local; 0 NVIDIA X 0: device_used 3 10..12 12
1 NVIDIA X 0: device_used 3 20..20 20
2 NVIDIA X 0: device_used 3 30..33 33
devices-by-position`},

	{"behind other text", "$ nvidia-smi --query-gpu=memory.used --format=csv -l 1\r\nmemory.used [MiB]\r\n5 MiB\r\n6 MiB\r\n", `none; 0  0: device_used 2 5..6 6`},

	{"processes", `timestamp, gpu_uuid, pid, process_name, used_gpu_memory [MiB]
2026/11/29 15:52:15.829, GPU-1, 458, /home/somebody/bin/python3, 4498 MiB
2026/11/29 15:52:15.829, GPU-1, 459, C:\Users\somebody\My Files, old\a, b.exe, [N/A]
2026/11/29 15:52:15.829, GPU-2, 459, C:\Users\somebody\My Files, old\a, b.exe, 12 MiB
2026/11/29 15:52:16.829, GPU-1, 458, /home/somebody/bin/python3, 4500 MiB
`, `local; 0  0: process_used 458 python3 2 4498..4500 4500
1  0: process_used 459 a, b.exe 1 12..12 12`},

	{"accounted processes", `gpu_uuid, pid, gpu_utilization [%], mem_utilization [%], max_memory_usage [MiB], time [ms]
GPU-1, 77, 40 %, 3 %, 2048 MiB, 12345 ms
`, `none; 0  0: process_used 77 1 2048..2048 2048`},

	{"dmon", `#Date        Time         gpu     fb   bar1   ccpm     sm    mem
#YYYYMMDD    HH:MM:SS     Idx     MB     MB     MB      %      %
 20261129    15:52:20       0      5      1      0      0      0
 20261129    15:52:20       1      -      -      -      -      -

#Date        Time         gpu     fb   bar1   ccpm     sm    mem
#YYYYMMDD    HH:MM:SS     Idx     MB     MB     MB      %      %
 20261129    15:52:21       0   4543   4544      0     99     35
 20261129    15:52:21       1      7      2      0      0      0
`, `local; 0  0: device_used 2 5..4543 4543, bar1_used 2 1..4544 4544, busy 2 0..99 99
1  0: device_used 1 7..7 7, bar1_used 1 2..2 2, busy 1 0..0 0`},

	{"dmon without times", `# gpu   pwr gtemp    sm   mem    fb  bar1
# Idx     W     C     %     %    MB    MB
    0    70    35     5     1  1000     3
    1    70    35     5     1  2000     3
    0    70    35     6     1  1500     3
    1    70    35     5     1  2000     3
`, `recording; 0  0: device_used 2 1000..1500 1500, bar1_used 2 3..3 3, busy 2 5..6 6
1  0: device_used 2 2000..2000 2000, bar1_used 2 3..3 3, busy 2 5..5 5
no-times`},

	{"dmon over midnight", `#Time        gpu    fb
#HH:MM:SS    Idx    MB
 23:59:59      0    10
 00:00:00      0    11
`, `day; 0  0: device_used 2 10..11 11`},

	{"dmon without memory", `# gpu   pwr gtemp mtemp    sm   mem
# Idx     W     C     C     %     %
    0    70    35     -     5     1
`, `recording; 0  0: 
no-memory-column no-times`},

	{"pmon", `#Date        Time         gpu         pid   type     fb   ccpm    command
#YYYYMMDD    HH:MM:SS     Idx           #    C/G     MB     MB    name
 20261129    15:52:20       0          -     -      -      -    -
 20261129    15:52:21       0        458     C   4498      0    python3 -m x
 20261129    15:52:22       0        458     C   4500      0    python3 -m x
 20261129    15:52:22       0        462   C+G      -      0    Xorg
`, `local; 0  0: process_used 458 python3 -m x 2 4498..4500 4500`},

	{"report", `
==============NVSMI LOG==============

Timestamp                                 : Tue Jul 14 08:12:53 2026
Driver Version                            : 580.1
Attached GPUs                             : 2
GPU 00000000:00:09.0
    Product Name                          : NVIDIA A
    GPU UUID                              : GPU-aaaa
    MIG Device
        Index                             : 0
        GPU Instance ID                   : 1
        Compute Instance ID               : 0
        Shared FB Memory Usage
            Total                         : 500 MiB
            Used                          : 12 MiB
    FB Memory Usage
        Total                             : 1000 MiB
        Reserved                          : 10 MiB
        Used                              : 400 MiB
        Free                              : 590 MiB
    BAR1 Memory Usage
        Total                             : 256 MiB
        Used                              : 3 MiB
    Utilization
        Gpu                               : 12 %
        Memory                            : 7 %
    Processes
        GPU instance ID                   : N/A
        Process ID                        : 1234
            Type                          : C
            Name                          : /home/somebody/python3
            Used GPU Memory               : 380 MiB
        Process ID                        : 1235
            Type                          : G
            Name                          : /usr/lib/xorg/Xorg
            Used GPU Memory               : Not available in WDDM driver model
GPU 00000000:00:0A.0
    Product Name                          : NVIDIA B
    FB Memory Usage
        Total                             : 2000 MiB
        Used                              : N/A
        Free                              : 2000 MiB

==============NVSMI LOG==============

Timestamp                                 : Tue Jul 14 08:12:58 2026
GPU 00000000:00:09.0
    GPU UUID                              : GPU-aaaa
    FB Memory Usage
        Total                             : 1000 MiB
        Used                              : 401 MiB
`, `local; 0 NVIDIA A 1000: instance_used MIG 1/0 1 12..12 12, device_total 2 1000..1000 1000, driver_reserved 1 10..10 10, device_used 2 400..401 401, device_free 1 590..590 590, bar1_used 1 3..3 3, busy 1 12..12 12, process_used 1234 python3 1 380..380 380
1 NVIDIA B 2000: device_total 1 2000..2000 2000, device_free 1 2000..2000 2000`},

	{"XML", `<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
	<timestamp>Fri Aug  4 11:44:30 2023</timestamp>
	<driver_version>535.1</driver_version>
	<gpu id="00000000:18:00.0">
		<product_name>NVIDIA A</product_name>
		<uuid>GPU-aaaa</uuid>
		<mig_devices><mig_device><index>0</index><gpu_instance_id>1</gpu_instance_id><compute_instance_id>0</compute_instance_id>
			<fb_memory_usage><total>500 MiB</total><used>12 MiB</used></fb_memory_usage></mig_device></mig_devices>
		<fb_memory_usage><total>1000 MiB</total><reserved>10 MiB</reserved><used>400 MiB</used><free>590 MiB</free></fb_memory_usage>
		<bar1_memory_usage><total>256 MiB</total><used>3 MiB</used></bar1_memory_usage>
		<utilization><gpu_util>5 %</gpu_util></utilization>
		<processes><process_info><pid>77</pid><type>C</type><process_name>/home/somebody/a &amp; b</process_name><used_memory>380 MiB</used_memory></process_info>
			<process_info><pid>78</pid><type>C</type><process_name>x</process_name><used_memory>N/A</used_memory></process_info></processes>
	</gpu>
</nvidia_smi_log>
<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
	<timestamp>Fri Aug  4 11:44:31 2023</timestamp>
	<gpu id="00000000:18:00.0"><uuid>GPU-aaaa</uuid><fb_memory_usage><total>1000 MiB</total><used>500 MiB</used></fb_memory_usage></gpu>
</nvidia_smi_log>
`, `local; 0 NVIDIA A 1000: instance_used MIG 1/0 1 12..12 12, device_total 2 1000..1000 1000, driver_reserved 1 10..10 10, device_used 2 400..500 500, device_free 1 590..590 590, bar1_used 1 3..3 3, busy 1 5..5 5, process_used 77 a 1 380..380 380`},

	{"table of new drivers under watch", "Every 1.0s: nvidia-smi                   somebodys-host: Tue Jul 14 08:12:53 2026\n\n" + `Tue Jul 14 08:12:53 2026
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 580.65.06              Driver Version: 580.65.06      CUDA Version: 13.0     |
+-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  NVIDIA H100 80GB HBM3          On  |   00000000:18:00.0 Off |                   On |
| N/A   33C    P0             70W /  700W |   12345MiB /  81559MiB |     17%      Default |
|                                         |                        |              Enabled |
+-----------------------------------------+------------------------+----------------------+
|   1  NVIDIA H100 80GB HBM3          On  |   00000000:2A:00.0 Off |                    0 |
| N/A   33C    P0             70W /  700W |       4MiB /  81559MiB |      0%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+

+-----------------------------------------------------------------------------------------+
| MIG devices:                                                                            |
+------------------+----------------------------------+-----------+-----------------------+
| GPU  GI  CI  MIG |              Shared Memory-Usage |        Vol|        Shared         |
|      ID  ID  Dev |                Shared BAR1-Usage | SM     Unc| CE ENC  DEC  OFA  JPG |
|==================+==================================+===========+=======================|
|  0    1   0   0  |              44MiB / 40448MiB    | 60      0 |  3   0    3    0    3 |
|                  |                 0MiB /     0MiB  |           |                       |
+------------------+----------------------------------+-----------+-----------------------+

+-----------------------------------------------------------------------------------------+
| Processes:                                                                              |
|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |
|        ID   ID                                                               Usage      |
|=========================================================================================|
|    0    1    0             1234      C   ...somebody/bin/python3               12000MiB |
|    1   N/A  N/A             999      G   /usr/lib/xorg/Xorg                          N/A |
+-----------------------------------------------------------------------------------------+
`, `local; 0 NVIDIA H100 80GB HBM3 81559: device_total 1 81559..81559 81559, device_used 1 12345..12345 12345, busy 1 17..17 17, instance_used MIG 1/0 1 44..44 44, process_used 1234 python3 1 12000..12000 12000
1 NVIDIA H100 80GB HBM3 81559: device_total 1 81559..81559 81559, device_used 1 4..4 4, busy 1 0..0 0`},

	{"table of old drivers twice", "\x1b[1mTue Jul 14 08:12:53 2020\x1b[0m       " + `
+-----------------------------------------------------------------------------+
| NVIDIA-SMI 418.67       Driver Version: 418.67       CUDA Version: 10.1     |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
|===============================+======================+======================|
|   0  Tesla T4            Off  | 00000000:00:04.0 Off |                    0 |
| N/A   60C    P8    11W /  70W |    100MiB / 15079MiB |      0%      Default |
+-------------------------------+----------------------+----------------------+

+-----------------------------------------------------------------------------+
| Processes:                                                       GPU Memory |
|  GPU       PID   Type   Process name                             Usage      |
|=============================================================================|
|    0      4242      C   python                                        90MiB |
+-----------------------------------------------------------------------------+
Tue Jul 14 08:12:54 2020
+-----------------------------------------------------------------------------+
| NVIDIA-SMI 418.67       Driver Version: 418.67       CUDA Version: 10.1     |
|-------------------------------+----------------------+----------------------+
|   0  Tesla T4            Off  | 00000000:00:04.0 Off |                    0 |
| N/A   60C    P8    11W /  70W |    200MiB / 15079MiB |      5%      Default |
+-------------------------------+----------------------+----------------------+
`, `local; 0 Tesla T4 15079: device_total 2 15079..15079 15079, device_used 2 100..200 200, busy 2 0..5 5, process_used 4242 python 1 90..90 90`},

	{"dcgmi", `#Entity   FBTTL                FBFRE                FBUSD                GPUTL
ID                              MiB                  MiB
GPU 0     81559                81000                559                  12
GPU 1     81559                N/A                  9223372036854775794  0
GPU-I 3   40000                39000                44                   N/A
GPU 0     81559                80000                1559                 13
GPU 1     81559                81500                59                   0
dmon was stopped due to receiving a signal
`, `recording; 0  81559: device_total 2 81559..81559 81559, device_free 2 80000..81000 80000, device_used 2 559..1559 1559, busy 2 12..13 13, instance_used GPU-I 3 1 44..44 44
1  81559: device_total 2 81559..81559 81559, busy 2 0..0 0, device_free 1 81500..81500 81500, device_used 1 59..59 59
no-times`},

	{"dcgm-exporter", `# HELP DCGM_FI_DEV_FB_USED Framebuffer memory used (in MiB).
# TYPE DCGM_FI_DEV_FB_USED gauge
DCGM_FI_DEV_FB_USED{gpu="0", UUID="GPU-a",device="nvidia0",modelName="NVIDIA A",Hostname="somebodys-host",pod="x"} 100
DCGM_FI_DEV_FB_USED{gpu="1", UUID="GPU-b",modelName="NVIDIA A",Hostname="somebodys-host"} 9223372036854775794
# HELP DCGM_FI_DEV_FB_FREE Framebuffer memory free (in MiB).
# TYPE DCGM_FI_DEV_FB_FREE gauge
DCGM_FI_DEV_FB_FREE{gpu="0", UUID="GPU-a",modelName="NVIDIA A",Hostname="somebodys-host"} 900
# HELP DCGM_FI_DEV_FB_USED Framebuffer memory used (in MiB).
# TYPE DCGM_FI_DEV_FB_USED gauge
DCGM_FI_DEV_FB_USED{gpu="0", UUID="GPU-a",modelName="NVIDIA A",Hostname="somebodys-host"} 150
DCGM_FI_DEV_FB_USED{gpu="1", UUID="GPU-b",modelName="NVIDIA A",Hostname="somebodys-host"} 7
DCGM_FI_DEV_FB_USED{gpu="1", UUID="GPU-b",GPU_I_ID="2",modelName="NVIDIA A",Hostname="somebodys-host"} 5
`, `none; 0 NVIDIA A 0: device_used 2 100..150 150, device_free 1 900..900 900
1 NVIDIA A 0: device_used 1 7..7 7, instance_used MIG 2 1 5..5 5
no-times`},

	{"nvidia_gpu_exporter", `# HELP nvidia_smi_memory_used_bytes memory.used
# TYPE nvidia_smi_memory_used_bytes gauge
nvidia_smi_memory_used_bytes{uuid="df6e7a7c"} 1.048576e+08 1700000000123
nvidia_smi_memory_total_bytes{uuid="df6e7a7c"} 1.073741824e+09 1700000000123
`, `epoch; 0  1024: device_used 1 100..100 100, device_total 1 1024..1024 1024`},

	{"Prometheus query", `{"status":"success","data":{"resultType":"matrix","result":[
{"metric":{"__name__":"DCGM_FI_DEV_FB_USED","gpu":"1","UUID":"GPU-b","Hostname":"somebodys-host"},"values":[[1700000000.781,"100"],[1700000015.781,"300"],[1700000030.781,"NaN"]]},
{"metric":{"__name__":"DCGM_FI_DEV_FB_USED","gpu":"0","UUID":"GPU-a"},"value":[1700000000.781,"42"]}]}}
`, `epoch; 0  0: device_used 1 42..42 42
1  0: device_used 2 100..300 300`},

	{"gpustat", `{
    "hostname": "somebodys-host",
    "driver_version": "470.1",
    "query_time": "2026-11-29T15:52:15.829000",
    "gpus": [
        {"index": 0, "uuid": "GPU-a", "name": "NVIDIA A", "utilization.gpu": 5, "power.draw": null, "memory.used": 400, "memory.total": 1000,
         "processes": [{"username": "somebody", "command": "python", "full_command": ["python", "/home/somebody/x.py"], "gpu_memory_usage": 390, "cpu_percent": 1.0, "cpu_memory_usage": 123456789, "pid": 77},
                       {"username": "somebody", "command": "X", "gpu_memory_usage": null, "pid": 78}]},
        {"index": 1, "uuid": "GPU-b", "name": "NVIDIA A", "utilization.gpu": null, "memory.used": 7, "memory.total": 1000, "processes": null}
    ]
}
{"hostname": "somebodys-host", "query_time": "2026-11-29T15:52:16.829000", "gpus": [{"index": 0, "uuid": "GPU-a", "name": "NVIDIA A", "memory.used": 500, "memory.total": 1000, "processes": []}]}
`, `local; 0 NVIDIA A 1000: device_used 2 400..500 500, device_total 2 1000..1000 1000, busy 1 5..5 5, process_used 77 python 1 390..390 390
1 NVIDIA A 1000: device_used 1 7..7 7, device_total 1 1000..1000 1000`},

	{"nvitop", `"train/duration (s)","train/timestamp","train/cuda:0 (gpu:3)/memory_used (MiB)/mean","train/cuda:0 (gpu:3)/memory_used (MiB)/max","train/cuda:0 (gpu:3)/memory_used (MiB)/last","train/cuda:0 (gpu:3)/gpu_utilization (%)/mean","train/host/cpu_percent (%)/mean"
1.0,1700000000.5,100.5,200,150,33,1
2.0,1700000001.5,100.5,210,150,nan,1
`, `epoch; 3  0: device_used 2 200..210 210, busy 1 33..33 33`},
}
