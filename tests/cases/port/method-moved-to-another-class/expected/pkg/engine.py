class Admission:
    def admit(self, queue):
        ready = [job for job in queue if job.ready and not job.aborted]
        limit = self.limit
        return ready[:limit]


class Scheduler:
    def run(self):
        return 2
